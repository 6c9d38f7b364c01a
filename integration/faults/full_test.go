package faults

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"lockproxy/integration/rig"
)

// At a Redis that is full (maxmemory, noeviction) nobody gets a new lock, or joins a queue, and all are told
// what to do, in words of their own and not in those of scripts. Whatever is held or waits goes on. R10
func TestFullRedis(t *testing.T) {
	t.Parallel()
	t.Run("single", func(t *testing.T) {
		t.Parallel()
		s := rig.StartRedis(t)
		p := rig.StartProxy(t, "--upstream", s.Addr)
		locksWhileFull(t, p, func(bytes string) { s.Do(t, "CONFIG", "SET", "maxmemory", bytes) })
	})
	t.Run("cluster", func(t *testing.T) {
		t.Parallel()
		c := rig.StartCluster(t, 3, 0)
		p := rig.StartProxy(t, "--upstream", c.Addrs())
		locksWhileFull(t, p, func(bytes string) { c.Each(t, "CONFIG", "SET", "maxmemory", bytes) })
	})
}

// locksWhileFull is what clients of p see before and while the servers have maxmemory set.
func locksWhileFull(t *testing.T, p *rig.Proxy, maxmemory func(bytes string)) {
	c, keeper := rig.Connect(t, p.Addr), rig.Connect(t, p.Addr)
	first, next := rig.Connect(t, p.Addr), rig.Connect(t, p.Addr)
	keeper.Must(t, "LOCK", "kept", "TOKEN", "t", "PX", "9000", "KEEPALIVE")
	for _, name := range []string{"plain", "checked", "again", "waited", "broken"} {
		c.Must(t, "LOCK", name, "TOKEN", "t", "PX", "60000")
	}
	c.Must(t, "LOCK", "again", "TOKEN", "t", "PX", "60000", "REENTRANT")
	c.Must(t, "LOCK", "noted", "TOKEN", "t", "PX", "60000", "META", "a note")
	for _, token := range []string{"t", "u"} {
		c.Must(t, "RLOCK", "read", "TOKEN", token, "PX", "60000")
	}
	for _, token := range []string{"t", "u"} {
		c.Must(t, "SEMLOCK", "rests", "PERMITS", "3", "TOKEN", token, "PX", "60000", "ATLEAST", "60000")
	}
	first.Send("LOCK", "waited", "TOKEN", "first", "PX", "60000", "WAIT", "60000")
	rig.WaitersOf(t, p.Addr, "waited", 1)
	next.Send("LOCK", "waited", "TOKEN", "next", "PX", "60000", "WAIT", "60000")
	rig.WaitersOf(t, p.Addr, "waited", 2)

	maxmemory("1")
	for _, args := range [][]string{
		{"LOCK", "new"}, {"LOCK", "new", "META", "a note"}, {"RLOCK", "new"}, {"LOCK", "new", "WAIT", "1000"},
		{"LOCK", "plain", "WAIT", "1000"}, {"RLOCK", "plain", "WAIT", "1000"},
		{"LOCK", "waited", "WAIT", "1000"},
		{"LOCK", "plain", "BREAK"}, {"RLOCK", "noted", "BREAK"}, {"LOCK", "waited", "BREAK"}, // nothing ends
	} {
		if v := c.Call(t, args...); !saysFull(v, "OOM") {
			t.Errorf("%q: %s", args, v)
		}
	}
	if v := c.Call(t, "SET", "key", "value"); !v.IsError("OOM") ||
		!strings.Contains(v.String(), "OOM command not allowed when used memory > 'maxmemory'.") {
		t.Errorf("SET: %s", v)
	}
	for _, name := range []string{"plain", "noted"} {
		key := "{" + name + "}:key"
		if v := c.Call(t, "GUARD", name, "t", "SET", key, "value"); !v.IsError("OOM") ||
			!strings.HasSuffix(v.Text, "OOM command not allowed when used memory > 'maxmemory'.") {
			t.Errorf("GUARD of SET: %s", v)
		}
		c.Want(t, "(integer) 0", "GUARD", name, "t", "DEL", key)
		c.Want(t, "(nil)", "GUARD", name, "t", "GET", key)
	}
	c.Want(t, "(nil)", "LOCK", "plain") // somebody else has it
	for _, name := range []string{"plain", "again", "noted", "read", "broken"} {
		if left := c.Must(t, "RENEW", name, "t", "PX", "70000").Int(); left <= 60000 {
			t.Errorf("RENEW %s: %d ms", name, left)
		}
	}
	for _, name := range []string{"checked", "noted"} {
		if v := c.Must(t, "LOCKCTL", "CHECK", name, "t"); len(v.Elems) != 3 {
			t.Errorf("CHECK %s: %s", name, v)
		}
	}
	if v := c.Must(t, "LOCK", "again", "TOKEN", "t", "PX", "60000", "REENTRANT"); len(v.Elems) != 4 {
		t.Errorf("LOCK of a holder: %s", v)
	}
	for _, left := range []string{"(integer) 0", "(integer) 0", "(integer) 1"} {
		c.Want(t, left, "UNLOCK", "again", "t")
	}
	for _, name := range []string{"plain", "noted", "read", "checked"} {
		c.Want(t, "(integer) 1", "UNLOCK", name, "t")
	}
	for _, token := range []string{"t", "u"} {
		c.Want(t, "(integer) 1", "UNLOCK", "rests", token)
	}
	if v := c.Must(t, "LOCKCTL", "INFO", "rests"); v.Field("used").Int() != 2 {
		t.Errorf("permits that rest: %s", v)
	}
	for _, name := range []string{"broken", "read", "rests"} {
		c.Want(t, "(integer) 1", "LOCKCTL", "BREAK", name)
	}

	c.Want(t, "(integer) 1", "UNLOCK", "waited", "t")
	if v, err := first.Receive(rig.Patience); err != nil || len(v.Elems) != 4 {
		t.Errorf("the first that waited: %s %v", v, err)
	}
	next.Close() // and leaves the queue
	rig.WaitersOf(t, p.Addr, "waited", 0)

	renewed(t, c, "kept", "t")
	keeper.Close()
	rig.Eventually(t, rig.Patience, "the lock is free that was kept alive", func() bool {
		state, _ := rig.LockInfo(t, p.Addr, "kept")
		return state == "free"
	})
	maxmemory("0")
	if v := c.Must(t, "LOCK", "new"); len(v.Elems) != 4 {
		t.Errorf("LOCK with memory: %s", v)
	}
}

// At a full Redis SYNC does what it does elsewhere for what is held: replicas confirm a hold that comes
// again, or is handed over, and a grant that too few of them have is taken back. R26
func TestSyncAtFullRedis(t *testing.T) {
	t.Parallel()
	master := rig.StartRedis(t)
	replica := rig.StartRedis(t, "--replicaof", "127.0.0.1", strconv.Itoa(master.Port))
	rig.Eventually(t, 2*rig.Patience, "the replica follows", func() bool {
		return replica.Info(t, "replication", "master_link_status") == "up" &&
			strings.Contains(master.Info(t, "replication", "slave0"), "state=online")
	})
	const timeout = time.Second
	p := rig.StartProxy(t, "--upstream", master.Addr, "--lock-sync-timeout", timeout.String())
	syncsFull(t, p, master, replica, timeout)
}

// syncsFull is what clients of p see when the master is full, and then without its replica.
func syncsFull(t *testing.T, p *rig.Proxy, master, replica *rig.Server, timeout time.Duration) {
	c, first, next := rig.Connect(t, p.Addr), rig.Connect(t, p.Addr), rig.Connect(t, p.Addr)
	lockFor(t, c, "LOCK", "job", "TOKEN", "t", "PX", "60000", "SYNC", "1")
	first.Send("LOCK", "job", "TOKEN", "first", "PX", "60000", "WAIT", "60000", "SYNC", "1")
	rig.WaitersOf(t, p.Addr, "job", 1)
	next.Send("LOCK", "job", "TOKEN", "next", "PX", "60000", "WAIT", "60000", "SYNC", "1")
	rig.WaitersOf(t, p.Addr, "job", 2)
	master.Do(t, "CONFIG", "SET", "maxmemory", "1")

	if v := c.Call(t, "LOCK", "new", "SYNC", "1"); !saysFull(v, "OOM") {
		t.Errorf("a new lock: %s", v)
	}
	lockFor(t, c, "LOCK", "job", "TOKEN", "t", "PX", "60000", "SYNC", "1")
	if n := c.Must(t, "WAIT", "1", "1000").Int(); n != 1 {
		t.Errorf("WAIT: %d", n)
	}
	c.Want(t, "(integer) 1", "UNLOCK", "job", "t")
	if v, err := first.Receive(rig.Patience); err != nil || len(v.Elems) != 4 {
		t.Errorf("the first that waited: %s %v", v, err)
	}
	replica.Kill()
	refusedSync(t, c, 0, 1, timeout, "LOCK", "job", "TOKEN", "first", "REENTRANT", "SYNC", "1")
	c.Want(t, "(integer) 1", "UNLOCK", "job", "first")
	if v, err := next.Receive(rig.Patience); err != nil || !v.IsError("NOREPLICAS") {
		t.Errorf("the next that waited: %s %v", v, err)
	}
	rig.Eventually(t, rig.Patience, "the grant is taken back", func() bool {
		state, waiters := rig.LockInfo(t, p.Addr, "job")
		return state == "free" && waiters == 0
	})
}

// While a slot moves away from a node that is full, whatever is held there goes on as well, and nobody gets a
// new lock. R10
func TestFullSourceOfAMovingSlot(t *testing.T) {
	t.Parallel()
	cluster := rig.StartCluster(t, 3, 0)
	p := rig.StartProxy(t, "--upstream", cluster.Addrs(), "--retry-budget", "1s")
	c, keeper := rig.Connect(t, p.Addr), rig.Connect(t, p.Addr)
	for _, name := range []string{"renewed", "again", "kept", "freed", "broken", "checked", "read"} {
		c.Must(t, "LOCK", "{foo}"+name, "TOKEN", "t", "PX", "60000")
	}
	keeper.Must(t, "LOCK", "{foo}alive", "TOKEN", "t", "PX", "9000", "KEEPALIVE")
	slot, from := strconv.Itoa(cluster.SlotOf(t, "{foo}")), cluster.MasterOf(t, "{foo}")
	to := cluster.Nodes[0]
	if to == from {
		to = cluster.Nodes[1]
	}
	to.Do(t, "CLUSTER", "SETSLOT", slot, "IMPORTING", from.Do(t, "CLUSTER", "MYID").Text)
	from.Do(t, "CLUSTER", "SETSLOT", slot, "MIGRATING", to.Do(t, "CLUSTER", "MYID").Text)
	cluster.Each(t, "CONFIG", "SET", "maxmemory", "1")

	if v := c.Call(t, "LOCK", "{foo}new"); !v.IsError("TRYAGAIN") { // its two keys are at two nodes
		t.Errorf("a new lock: %s", v)
	}
	if v := c.Call(t, "LOCK", "{foo}renewed", "BREAK"); !saysFull(v, "OOM") {
		t.Errorf("a lock that is taken over: %s", v)
	}
	if left := c.Must(t, "RENEW", "{foo}renewed", "t", "PX", "70000").Int(); left <= 60000 {
		t.Errorf("RENEW: %d ms", left)
	}
	for name, args := range map[string][]string{
		"again": {"PX", "60000", "REENTRANT"}, "kept": {"PX", "60000", "KEEPALIVE"},
	} {
		words := append([]string{"LOCK", "{foo}" + name, "TOKEN", "t"}, args...)
		if v := c.Call(t, words...); len(v.Elems) != 4 {
			t.Errorf("%v: %s", words, v)
		}
	}
	if v := c.Call(t, "LOCKCTL", "CHECK", "{foo}checked", "t"); len(v.Elems) != 3 {
		t.Errorf("CHECK: %s", v)
	}
	if v := c.Call(t, "RLOCK", "{foo}read", "TOKEN", "t", "PX", "60000"); len(v.Elems) != 4 {
		t.Errorf("from LOCK to RLOCK: %s", v)
	}
	c.Want(t, "(integer) 0", "UNLOCK", "{foo}again", "t")
	for _, name := range []string{"again", "kept", "freed", "renewed", "read"} {
		c.Want(t, "(integer) 1", "UNLOCK", "{foo}"+name, "t")
	}
	c.Want(t, "(integer) 1", "LOCKCTL", "BREAK", "{foo}broken")
	renewed(t, c, "{foo}alive", "t")
}

// saysFull says that v is an error of that word, and names the remedy and no script.
func saysFull(v rig.Reply, word string) bool {
	return v.IsError(word) && strings.Contains(v.String(), "raise maxmemory") &&
		!strings.Contains(v.String(), "script")
}

// A master of RedLock that is full grants nothing new; the others do, while they are a majority.
func TestFullMasters(t *testing.T) {
	t.Parallel()
	three := rig.StartMasters(t, 3)
	p := three.StartRedlock(t, 20*time.Second, "--upstream", rig.StartRedis(t).Addr, "--lock-lease", "20s",
		"--redlock-max-lease", "25s")
	c := rig.Connect(t, p.Addr)
	c.Must(t, "LOCK", "again", "TOKEN", "t", "PX", "20000")
	c.Must(t, "LOCK", "again", "TOKEN", "t", "PX", "20000", "REENTRANT")
	c.Must(t, "LOCK", "plain", "TOKEN", "t", "PX", "20000")

	three[0].Do(t, "CONFIG", "SET", "maxmemory", "1")
	if v := c.Must(t, "LOCK", "new", "PX", "20000"); len(v.Elems) != 4 {
		t.Errorf("one of three is full: %s", v)
	}
	three[1].Do(t, "CONFIG", "SET", "maxmemory", "1")
	if v := c.Call(t, "LOCK", "newer", "PX", "20000"); !saysFull(v, "NOQUORUM") {
		t.Errorf("two of three are full: %s", v)
	}
	three[2].Do(t, "CONFIG", "SET", "maxmemory", "1")
	for _, name := range []string{"again", "plain"} {
		if left := c.Must(t, "RENEW", name, "t", "PX", "25000").Int(); left <= 20000 {
			t.Errorf("RENEW %s: %d ms", name, left)
		}
	}
	if v := c.Must(t, "LOCKCTL", "CHECK", "again", "t"); len(v.Elems) != 3 {
		t.Errorf("CHECK: %s", v)
	}
	c.Want(t, "(integer) 0", "UNLOCK", "again", "t")
	c.Want(t, "(integer) 1", "UNLOCK", "again", "t")
	c.Want(t, "(integer) 1", "LOCKCTL", "BREAK", "plain")
}
