package faults

import (
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"lockproxy/integration/rig"
)

// startReplicas starts a Redis with that many replicas, which all follow it.
func startReplicas(l rig.Life, n int) (master *rig.Server, replicas []*rig.Server) {
	l.Helper()
	master = rig.StartRedis(l)
	for range n {
		r := rig.StartRedis(l, "--replicaof", "127.0.0.1", strconv.Itoa(master.Port))
		replicas = append(replicas, r)
	}
	follow(l, master, n)
	return master, replicas
}

// follow waits until n replicas get what is written to s. A link that is up may carry
// nothing yet, and what a WAIT counts may have come with the first copy of all.
func follow(l rig.Life, s *rig.Server, n int) {
	l.Helper()
	rig.Eventually(l, 2*rig.Patience, fmt.Sprintf("%d replicas follow", n), func() bool {
		c, err := rig.Dial(s.Addr)
		if err != nil {
			return false
		}
		defer c.Close()
		for _, write := range [][]string{ // of no slot
			{"FUNCTION", "LOAD", "REPLACE",
				"#!lua name=follow\nredis.register_function('follow', function() return 1 end)"},
			{"FUNCTION", "DELETE", "follow"},
		} {
			if v, err := c.Do(write...); err != nil || v.IsError() {
				return false
			}
			if v, err := c.Do("WAIT", strconv.Itoa(n), "100"); err != nil || v.Int() != int64(n) {
				return false
			}
		}
		return true
	})
}

// loseWrites has an asynchronous fail-over lose what clients do in during: the one replica of
// the master of key hears nothing of it, the master dies, the replica takes over.
func loseWrites(l rig.Life, c *rig.Cluster, key string, during func()) (old, now *rig.Server) {
	l.Helper()
	old = c.MasterOf(l, key)
	now = c.ReplicasOf(l, old)[0]
	now.Stop(l)
	// Stopped alone it would read what has reached its socket when it goes on.
	old.Do(l, "CLIENT", "KILL", "TYPE", "replica")
	during()
	old.Kill()
	now.Signal(syscall.SIGCONT)
	now.Promote(l, "TAKEOVER")
	rig.Eventually(l, 2*rig.Patience, "all know the new master", func() bool {
		for _, n := range c.Nodes {
			if !n.Ended() && rig.InfoField(n.Do(l, "CLUSTER", "INFO").Text, "cluster_state") != "ok" {
				return false
			}
		}
		return c.MasterOf(l, key) == now
	})
	return old, now
}

// refusedSync checks that LOCK says NOREPLICAS got/need, and not before the timeout.
func refusedSync(t *testing.T, c *rig.Conn, got, need int, timeout time.Duration, args ...string) {
	t.Helper()
	began := time.Now()
	v := c.Call(t, args...)
	took := time.Since(began)
	if want := fmt.Sprintf("NOREPLICAS %d/%d ", got, need); !v.IsError() || !strings.HasPrefix(v.Text, want) {
		t.Errorf("%s: %s, want -%s", strings.Join(args, " "), v, want)
	}
	if took < timeout {
		t.Errorf("%s took %v, the timeout is %v", strings.Join(args, " "), took, timeout)
	}
}

// lockFor checks that LOCK is granted, and returns fence and ttl.
func lockFor(t *testing.T, c *rig.Conn, args ...string) (fence int64, ttl time.Duration) {
	t.Helper()
	v := c.Call(t, args...)
	if len(v.Elems) != 4 {
		t.Errorf("%s: %s", strings.Join(args, " "), v)
		return 0, 0
	}
	return v.Elems[1].Int(), time.Duration(v.Elems[2].Int()) * time.Millisecond
}

// A grant counts when as many replicas have it as were asked for; else it is given back. R26
func TestSync(t *testing.T) {
	t.Parallel()
	master, replicas := startReplicas(t, 2)
	const timeout = 400 * time.Millisecond
	p := rig.StartProxy(t, "--upstream", master.Addr, "--lock-sync-timeout", "400ms")
	c := rig.Connect(t, p.Addr)
	// What is to be granted has all the time that a busy machine takes.
	patient := rig.StartProxy(t, "--upstream", master.Addr, "--lock-sync-timeout", "1m")
	granted := rig.Connect(t, patient.Addr)

	for n := range 3 {
		key, sync := fmt.Sprint("sync:", n), strconv.Itoa(n)
		_, ttl := lockFor(t, granted, "LOCK", key, "TOKEN", "a", "PX", "1200000", "SYNC", sync)
		if ttl > 20*time.Minute ||
			ttl < 10*time.Minute {
			t.Errorf("SYNC %d: %v remain of 20 min", n, ttl)
		}
		have := 0
		for _, r := range replicas {
			have += int(r.Do(t, "EXISTS", "lock:{"+key+"}").Int())
		}
		if have < n {
			t.Errorf("SYNC %d: granted, and %d replicas have it", n, have)
		}
		c.Want(t, "(integer) 1", "UNLOCK", key, "a")
	}
	if n := master.Info(t, "commandstats", "cmdstat_pexpireat"); !strings.HasPrefix(n, "calls=2,") {
		t.Errorf("what was asked before WAIT, twice, wrote %q: Redis 7.2 counts nothing else", n)
	}
	lockFor(t, granted, "RLOCK", "shared", "TOKEN", "a", "PX", "1200000", "SYNC", "2")
	lockFor(t, granted, "RLOCK", "shared", "TOKEN", "b", "PX", "1200000", "SYNC", "2")
	if v := c.Call(t, "WLOCK", "shared", "TOKEN", "c", "SYNC", "2"); !v.Null {
		t.Errorf("held by others, and yet %s", v)
	}

	replicas[1].Stop(t)
	refusedSync(t, c, 1, 2, timeout, "LOCK", "job", "TOKEN", "a", "SYNC", "2")
	fence, _ := lockFor(t, granted, "LOCK", "job", "TOKEN", "b", "PX", "1200000", "SYNC", "1")
	// The same token again, counted: only that is taken back.
	refusedSync(t, c, 1, 2, timeout, "LOCK", "job", "TOKEN", "b", "REENTRANT", "SYNC", "2")
	if v := c.Must(t, "LOCKCTL", "CHECK", "job", "b"); len(v.Elems) != 3 || v.Elems[1].Int() != fence ||
		v.Elems[2].Int() != 1 {
		t.Errorf("the hold after a re-entry that was refused: %s", v)
	}
	// Who waits gets the lock and cannot keep it; the one behind gets it then.
	waiter, next := rig.Connect(t, p.Addr), rig.Connect(t, patient.Addr)
	waiter.Send("LOCK", "job", "TOKEN", "w", "WAIT", "600000", "SYNC", "2")
	rig.WaitersOf(t, p.Addr, "job", 1)
	next.Send("LOCK", "job", "TOKEN", "n", "PX", "1200000", "WAIT", "600000", "SYNC", "1")
	rig.WaitersOf(t, p.Addr, "job", 2)
	c.Want(t, "(integer) 1", "UNLOCK", "job", "b")
	if v, err := waiter.Receive(rig.Patience); err != nil || !v.IsError("NOREPLICAS") {
		t.Errorf("the waiter: %s %v", v, err)
	}
	if v, err := next.Receive(rig.Patience); err != nil || len(v.Elems) != 4 {
		t.Errorf("the waiter behind it: %s %v", v, err)
	}
	c.Want(t, "(integer) 1", "UNLOCK", "job", "n")

	// A client that does not wait for the answer leaves nothing behind.
	leaving := rig.Connect(t, p.Addr)
	leaving.Send("LOCK", "job", "TOKEN", "l", "SYNC", "2")
	rig.Eventually(t, rig.Patience, "the lock is taken",
		func() bool { state, _ := rig.LockInfo(t, p.Addr, "job"); return state == "write" })
	leaving.Close()
	rig.Eventually(t, rig.Patience, "the lock is free",
		func() bool { state, _ := rig.LockInfo(t, p.Addr, "job"); return state == "free" })

	replicas[0].Stop(t)
	refusedSync(t, c, 0, 1, timeout, "LOCK", "job", "TOKEN", "a", "SYNC", "1", "WAIT", "1000")
	lockFor(t, c, "LOCK", "job", "TOKEN", "b")
	c.Want(t, "(integer) 1", "UNLOCK", "job", "b")
	for _, r := range replicas {
		r.Signal(syscall.SIGCONT)
	}
	rig.Eventually(t, 2*rig.Patience, "granted when the replicas are back", func() bool {
		return len(c.Call(t, "LOCK", "job", "TOKEN", "a", "SYNC", "2").Elems) == 4
	})
}

// Where there are no replicas SYNC is refused, and nothing else is; --lock-sync is the
// default that SYNC overrides. R26
func TestSyncWithoutReplicas(t *testing.T) {
	t.Parallel()
	for name, upstream := range map[string][]string{"single": {"--upstream", rig.SharedRedis().Addr},
		"dev": {"--dev"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := rig.StartProxy(t, append(upstream, "--lock-sync", "1", "--lock-sync-timeout", "50ms")...)
			c := rig.Connect(t, p.Addr)
			key := "unsynced:" + t.Name()
			for _, args := range [][]string{{"LOCK", key}, {"LOCK", key, "SYNC", "1"},
				{"LOCK", key, "TOKEN", "t", "WAIT", "1000"}, {"RLOCK", key, "SYNC", "3"}} {
				need := 1
				if args[0] == "RLOCK" {
					need = 3
				}
				refusedSync(t, c, 0, need, 0, args...)
				if state, waiters := rig.LockInfo(t, p.Addr, key); state != "free" || waiters != 0 {
					t.Errorf("after %v the lock is %s with %d waiters", args, state, waiters)
				}
			}
			lockFor(t, c, "LOCK", key, "TOKEN", "t", "SYNC", "0")
			c.Want(t, "(integer) 1", "UNLOCK", key, "t")
		})
	}
}

// An asynchronous fail-over loses grants that only the master knew: the exception of what
// is promised. It is really seen without SYNC, and gone with it. R26
func TestFailoverLosesGrants(t *testing.T) {
	t.Parallel()
	c := rig.StartCluster(t, 3, 1)
	p := rig.StartProxy(t, "--upstream", c.Addrs())
	for _, m := range c.Nodes[:c.Masters] {
		follow(t, m, 1)
	}
	one, two := rig.Connect(t, p.Addr), rig.Connect(t, p.Addr)
	granted := rig.Connect(t, rig.StartProxy(t, "--upstream", c.Addrs(), "--lock-sync-timeout", "1m").Addr)
	// All of these lie in one slot.
	const early, plain, synced = "{lossy}:early", "{lossy}:plain", "{lossy}:synced"
	for i := range 12 { // of every master
		key := fmt.Sprint("everywhere:", i)
		lockFor(t, granted, "LOCK", key, "TOKEN", "a", "PX", "1200000", "SYNC", "1")
		if v := two.Call(t, "LOCK", key, "TOKEN", "b", "SYNC", "1"); !v.Null {
			t.Errorf("%s is held, and yet %s", key, v)
		}
	}
	earlyFence, _ := lockFor(t, granted, "LOCK", early, "TOKEN", "a", "PX", "1200000", "SYNC", "1")

	var fence int64
	var until time.Time
	loseWrites(t, c, plain, func() {
		began := time.Now()
		f, ttl := lockFor(t, one, "LOCK", plain, "TOKEN", "a", "PX", "1200000")
		fence, until = f, began.Add(ttl)
		refusedSync(t, one, 0, 1, time.Second, "LOCK", synced, "TOKEN", "a", "PX", "1200000", "SYNC", "1")
	})

	// Without SYNC: a second holder while the first one's ttl runs. Its fence is higher.
	again, _ := lockFor(t, two, "LOCK", plain, "TOKEN", "b", "PX", "1200000")
	if left := time.Until(until); left < 10*time.Second {
		t.Fatalf("the first grant has %v left: the machine is too slow for this test", left)
	}
	if again <= fence {
		t.Errorf("the fence before the fail-over was %d, after it %d", fence, again)
	}
	one.Want(t, "(integer) 0", "RENEW", plain, "a")
	one.Want(t, "(nil)", "UNLOCK", plain, "a")

	// With SYNC: what was granted is still there, what was refused is free.
	if v := two.Call(t, "LOCK", early, "TOKEN", "b"); !v.Null {
		t.Errorf("a grant that a replica had was lost: %s", v)
	}
	if v := one.Must(t, "LOCKCTL", "CHECK", early, "a"); len(v.Elems) != 3 || v.Elems[1].Int() != earlyFence {
		t.Errorf("LOCKCTL CHECK after the fail-over: %s", v)
	}
	one.Want(t, "(integer) 1", "UNLOCK", early, "a")
	lockFor(t, two, "LOCK", synced, "TOKEN", "b")
	// The new master has no replica yet: nothing can be promised there.
	refusedSync(t, two, 0, 1, time.Second, "LOCK", early, "TOKEN", "b", "SYNC", "1")
}

// Grants with SYNC while their master dies: each that was told is still there afterwards,
// and no client hangs. R26
func TestSyncWhileTheMasterDies(t *testing.T) {
	t.Parallel()
	c := rig.StartCluster(t, 3, 1)
	for _, m := range c.Nodes[:c.Masters] {
		follow(t, m, 1)
	}
	p := rig.StartProxy(t, "--upstream", c.Addrs())
	old := c.MasterOf(t, "{dies}")
	type outcome struct {
		key string
		v   rig.Reply
		err error
	}
	results := make(chan []outcome)
	end := make(chan struct{})
	var answers atomic.Int64
	const clients = 6
	for i := range clients {
		go func() {
			var all []outcome
			defer func() { results <- all }()
			conn, err := rig.Dial(p.Addr)
			if err != nil {
				all = append(all, outcome{err: err})
				return
			}
			defer conn.Close()
			for n := 0; ; n++ {
				select {
				case <-end:
					return
				default:
				}
				key := fmt.Sprintf("{dies}:%d:%d", i, n)
				conn.Send("LOCK", key, "TOKEN", "a", "PX", "1200000", "SYNC", "1")
				v, err := conn.Receive(2 * rig.Patience)
				all = append(all, outcome{key, v, err})
				answers.Add(1)
				if err != nil {
					return
				}
			}
		}()
	}
	rig.Eventually(t, 2*rig.Patience, "locks are granted", func() bool { return answers.Load() > 100 })
	old.Kill()
	c.DeadAfter("2000")
	rig.Eventually(t, 2*rig.Patience, "a replica has taken over", func() bool {
		v, err := rig.Ask(p.Addr, "SET", "{dies}", "1")
		return err == nil && v.Text == "OK"
	})
	time.Sleep(200 * time.Millisecond)
	close(end)
	client := rig.Connect(t, p.Addr)
	granted, refused := 0, map[string]int{}
	for range clients {
		for _, o := range <-results {
			switch {
			case o.err != nil:
				t.Error(o.err)
			case o.v.IsError():
				word, _, _ := strings.Cut(o.v.Text, " ")
				refused[word]++
			case len(o.v.Elems) != 4:
				t.Errorf("%s: %s", o.key, o.v)
			default:
				granted++
				if v := client.Must(t, "LOCKCTL", "CHECK", o.key, "a"); len(v.Elems) != 3 ||
					v.Elems[1].Int() != o.v.Elems[1].Int() {
					t.Errorf("%s was granted with SYNC 1 and is lost: %s, now %s", o.key, o.v, v)
				}
			}
		}
	}
	t.Logf("%d granted, refused: %v", granted, refused)
	if granted < 50 || len(refused) == 0 {
		t.Errorf("%d granted, refused: %v: the test did not test", granted, refused)
	}
}
