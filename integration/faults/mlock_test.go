package faults

import (
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"lockproxy/integration/rig"
)

// Several locks are renewed and freed together while their slot is half here and half there. New ones wait
// for the slot, and if that takes too long none is held. R2 R5
func TestSetInAHalfMovedSlot(t *testing.T) {
	t.Parallel()
	c := rig.StartCluster(t, 3, 0)
	var by [2]*rig.Conn
	for i, budget := range []string{"300ms", "2m"} {
		by[i] = rig.Connect(t, rig.StartProxy(t, "--upstream", c.Addrs(), "--retry-budget", budget).Addr)
	}
	quick, patient := by[0], by[1]
	quick.Must(t, "LOCK", "{half}:first", "TOKEN", "first", "PX", "60000")
	quick.Must(t, "UNLOCK", "{half}:first", "first")
	aheadOfClock(t, c, "half")
	var fences risingFences
	names := []string{"elsewhere", "{half}:mine", "{half}:yours"}
	f := fences.roseTogether(t, quick.Must(t, sets("MLOCK", names, "TOKEN", "a", "PX", "60000")...), 1)
	kept := []string{"{half}:kept", "kept"}
	quick.Must(t, sets("MLOCK", kept, "TOKEN", "k", "PX", "9000", "KEEPALIVE")...)
	h := leaveHalfMoved(t, t, c, "half")
	fresh := []string{"another", "{half}:another", "{half}:third"}
	for _, at := range []*rig.Server{h.from, h.to} {
		h.fence(at)
		for i, name := range names {
			if v := patient.Must(t, "LOCKCTL", "CHECK", name, "a"); len(v.Elems) != 3 ||
				v.Elems[1].Int() != f[i] {
				t.Errorf("CHECK of %s: %s, want the fence %d", name, v, f[i])
			}
		}
		if v := patient.Must(t, sets("MRENEW", names, "a", "PX", "70000")...); v.Int() <= 60000 {
			t.Errorf("MRENEW: %s", v)
		}
		if v := quick.Call(t, sets("MLOCK", fresh, "TOKEN", "b")...); !v.IsError("TRYAGAIN") {
			t.Errorf("MLOCK of new ones: %s", v)
		}
		for _, name := range fresh {
			if v := patient.Must(t, "LOCKCTL", "INFO", name); v.Field("state").Text != "free" {
				t.Errorf("MLOCK in vain has left %s", v)
			}
		}
		renewed(t, patient, kept[0], "k")
	}
	patient.Want(t, "(integer) 3", sets("MUNLOCK", names, "a")...)
	patient.Want(t, "(integer) 0", sets("MUNLOCK", names, "a")...)
	patient.Want(t, "(integer) 1", "LOCKCTL", "BREAK", kept[0])
	rig.Eventually(t, rig.Patience, "the other one is freed, too", func() bool {
		return patient.Must(t, "LOCKCTL", "INFO", kept[1]).Field("state").Text == "free"
	})
	if v := quick.Call(t, sets("MUNLOCK", kept, "k")...); !v.IsError("LOCKLOST") {
		t.Errorf("after the loss: %s", v)
	}
	patient.Send(sets("MLOCK", fresh, "TOKEN", "b")...)
	if !patient.Silent(time.Second) {
		t.Error("an answer before the slot has moved")
	}
	c.Migrate(t, h.slot, h.from, h.to, 0)
	v, err := patient.Receive(rig.Patience)
	if err != nil {
		t.Fatal(err)
	}
	fences.roseTogether(t, v, 1)
}

// roseTogether are the fences of a set, of which those from the given one on are of one slot.
func (f *risingFences) roseTogether(t *testing.T, v rig.Reply, from int) (all []int64) {
	t.Helper()
	if len(v.Elems) != 3 {
		t.Fatalf("no grant: %s", v)
	}
	highest := f.last
	for i, fence := range v.Elems[1].Elems {
		if n := fence.Int(); i >= from && (n <= f.last || n < 1e15) {
			t.Errorf("fence %d behind %d", n, f.last)
		} else if i >= from {
			highest = max(highest, n)
		}
		all = append(all, fence.Int())
	}
	f.last = highest
	return all
}

// sets is a command about these locks.
func sets(verb string, names []string, rest ...string) []string {
	return append(append([]string{verb, strconv.Itoa(len(names))}, names...), rest...)
}

// checkAtRest is LOCKCTL CHECK once nothing of a refused request is being taken back any more.
func checkAtRest(t *testing.T, c *rig.Conn, name, token string) (v rig.Reply) {
	t.Helper()
	rig.Eventually(t, rig.Patience, "what was refused to be taken back", func() bool {
		v = c.Call(t, "LOCKCTL", "CHECK", name, token)
		return !v.IsError("TRYAGAIN")
	})
	return v
}

// A Redis that is full in the middle of a set: the client is told, and nothing is held when it hears so, but
// what its token held before. R10
func TestSetAtFullRedis(t *testing.T) {
	t.Parallel()
	cluster := rig.StartCluster(t, 3, 0)
	p := rig.StartProxy(t, "--upstream", cluster.Addrs())
	c := rig.Connect(t, p.Addr)
	first, last := namesApart(t, cluster)
	before := "{" + first + "}:before"
	fence := c.Must(t, "LOCK", before, "TOKEN", "t", "PX", "60000").Elems[1].Int()
	other := rig.Connect(t, p.Addr)
	other.Must(t, "LOCK", "{"+last+"}:held", "TOKEN", "o", "PX", "60000")
	waits := rig.Connect(t, p.Addr)
	waits.Send("MLOCK", "2", "{"+first+"}:waits", "{"+last+"}:held", "TOKEN", "w", "PX", "60000",
		"WAIT", "600000")
	rig.WaitersOf(t, p.Addr, "{"+last+"}:held", 1)
	cluster.MasterOf(t, last).Do(t, "CONFIG", "SET", "maxmemory", "1")

	for _, names := range [][]string{
		{first, last}, {before, last}, {first, "{" + first + "}b", last, "{" + last + "}b"},
		{last, "{" + last + "}b"}, {first, "{" + last + "}:held"},
	} {
		for _, more := range [][]string{nil, {"KEEPALIVE"}, {"WAIT", "1000"}, {"META", "why"}} {
			rest := append([]string{"TOKEN", "t", "PX", "60000"}, more...)
			v := c.Call(t, sets("MLOCK", names, rest...)...)
			held := names[len(names)-1] == "{"+last+"}:held"
			if refused := v.String() == "(nil)"; !saysFull(v, "OOM") && !(held && refused) {
				t.Errorf("MLOCK %q %q: %s", names, more, v)
			}
			for _, name := range names {
				if v := checkAtRest(t, other, name, "t"); name != before && !v.Null {
					t.Errorf("MLOCK %q %q has left %s: %s", names, more, name, v)
				}
			}
		}
	}
	if v := c.Must(t, "LOCKCTL", "CHECK", before, "t"); len(v.Elems) != 3 ||
		v.Elems[1].Int() != fence {
		t.Errorf("what the token held before: %s", v)
	}
	other.Want(t, "(integer) 1", "UNLOCK", "{"+last+"}:held", "o")
	if v, err := waits.Receive(rig.Patience); err != nil || len(v.Elems) != 3 {
		t.Errorf("the one that waited before Redis was full: %s %v", v, err)
	}
	names := []string{"{" + first + "}:waits", "{" + last + "}:held"}
	if v := c.Must(t, sets("MRENEW", names, "w", "PX", "60000")...); v.Int() < 50000 {
		t.Errorf("MRENEW: %s", v)
	}
	c.Want(t, "(integer) 2", sets("MUNLOCK", names, "w")...)
}

// namesApart are names of locks on two masters, in the order in which a set takes them.
func namesApart(t *testing.T, c *rig.Cluster) (first, last string) {
	t.Helper()
	first, last = "a", "a"
	for c.MasterOf(t, last) == c.MasterOf(t, first) {
		last += "."
	}
	if c.SlotOf(t, last) < c.SlotOf(t, first) {
		return last, first
	}
	return first, last
}

// SYNC holds for each lock of a set: one that too few replicas have, and none is held when the client is
// told so. R26
func TestSetWithSync(t *testing.T) {
	t.Parallel()
	cluster := rig.StartCluster(t, 3, 1)
	p := rig.StartProxy(t, "--upstream", cluster.Addrs(), "--lock-sync", "1",
		"--lock-sync-timeout", "400ms")
	c, other := rig.Connect(t, p.Addr), rig.Connect(t, p.Addr)
	first, last := namesApart(t, cluster)
	names := []string{first, "{" + first + "}b", last}
	rig.Eventually(t, 2*rig.Patience, "replicas have what is granted", func() bool {
		return len(c.Call(t, sets("MLOCK", names, "TOKEN", "t", "PX", "60000")...).Elems) == 3
	})
	for _, name := range names {
		have := 0
		for _, r := range cluster.ReplicasOf(t, cluster.MasterOf(t, name)) {
			slot := strconv.Itoa(cluster.SlotOf(t, name))
			have += int(r.Do(t, "CLUSTER", "COUNTKEYSINSLOT", slot).Int())
		}
		if have < 2 {
			t.Errorf("no replica has %s and its fence", name)
		}
	}
	c.Want(t, "(integer) 3", sets("MUNLOCK", names, "t")...)
	for _, at := range []string{last, first} {
		replica := cluster.ReplicasOf(t, cluster.MasterOf(t, at))[0]
		replica.Stop(t)
		for _, more := range [][]string{nil, {"KEEPALIVE"}, {"WAIT", "1000"}} {
			rest := append([]string{"TOKEN", "t", "PX", "60000"}, more...)
			if v := c.Call(t, sets("MLOCK", names, rest...)...); !v.IsError("NOREPLICAS") {
				t.Errorf("%q without the replica of %s: %s", more, at, v)
			}
			for _, name := range names {
				if v := checkAtRest(t, other, name, "t"); !v.Null {
					t.Errorf("%q has left %s: %s", more, name, v)
				}
			}
		}
		replica.Signal(syscall.SIGCONT)
		rig.Eventually(t, 2*rig.Patience, "granted when the replica is back", func() bool {
			return len(c.Call(t, sets("MLOCK", names, "TOKEN", "t", "PX", "60000")...).Elems) == 3
		})
		c.Want(t, "(integer) 3", sets("MUNLOCK", names, "t")...)
	}
}

// After a fail-over a set that needs a lock of that shard is refused until the grace is over, and nothing of
// it is held elsewhere. What the token held before goes on. R26
func TestSetInTheGrace(t *testing.T) {
	t.Parallel()
	const grace = 20 * time.Second
	c := rig.StartCluster(t, 3, 1)
	for _, m := range c.Nodes[:c.Masters] {
		follow(t, m, 1)
	}
	p := rig.StartProxy(t, "--upstream", c.Addrs(), "--lock-lease", "10s", "--lock-failover-grace",
		grace.String())
	one, two := rig.Connect(t, p.Addr), rig.Connect(t, p.Addr)
	first, last := namesApart(t, c)
	known := []string{"{" + first + "}known", "{" + last + "}known"}
	rig.Eventually(t, 2*grace, "the masters to be old enough", func() bool {
		return len(one.Call(t, sets("MLOCK", known, "TOKEN", "a", "PX", "120000")...).Elems) == 3
	})
	old := c.MasterOf(t, last)
	lockFor(t, one, "LOCK", known[1], "TOKEN", "a", "PX", "120000", "SYNC", "1")
	began := time.Now()
	loseWrites(t, c, last, func() {
		one.Must(t, "MLOCK", "2", first, last, "TOKEN", "a", "PX", "10000")
	})
	if c.MasterOf(t, last) == old {
		t.Fatal("no fail-over")
	}
	one.Want(t, "(integer) 1", "UNLOCK", first, "a")
	for _, names := range [][]string{{first, last}, {last, "{" + last + "}b"}, {known[0], last}} {
		v := two.Call(t, sets("MLOCK", names, "TOKEN", "b")...)
		if names[0] == known[0] { // of the token a
			v = two.Call(t, sets("MLOCK", names, "TOKEN", "a", "PX", "120000")...)
		}
		if !v.IsError("TRYAGAIN") || !strings.Contains(v.Text, " ms ") {
			t.Errorf("MLOCK %q in the grace: %s", names, v)
		}
		for _, name := range names {
			if v := checkAtRest(t, one, name, "b"); !v.Null {
				t.Errorf("MLOCK %q has left %s: %s", names, name, v)
			}
		}
	}
	if v := two.Must(t, sets("MRENEW", known, "a", "PX", "120000")...); v.Int() < 60000 {
		t.Errorf("MRENEW in the grace: %s", v)
	}
	if v := two.Must(t, sets("MLOCK", known, "TOKEN", "a", "PX", "120000")...); len(v.Elems) != 3 {
		t.Errorf("the token that holds them: %s", v)
	}
	two.Want(t, "(integer) 2", sets("MUNLOCK", known, "a")...)
	var got time.Time
	rig.Eventually(t, 2*grace, "the grace to end", func() bool {
		v := two.Call(t, "MLOCK", "2", first, last, "TOKEN", "b")
		got = time.Now()
		return len(v.Elems) == 3
	})
	if got.Before(began.Add(10 * time.Second)) {
		t.Error("a second holder before the end of the first one's lease")
	}
}
