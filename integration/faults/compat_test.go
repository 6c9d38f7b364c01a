package faults

import (
	"slices"
	"testing"
	"time"

	"lockproxy/integration/rig"
)

// Locks in the form of another library while their slot is half here and half there: nobody gets one that
// another has. A script needs the lock and the fence at one server, so what cannot be done meanwhile is
// refused, or waits until the slot has moved. R2 R5
func TestCompatInAHalfMovedSlot(t *testing.T) {
	t.Parallel()
	lock := []string{"SET", "{half}:library", "x", "NX", "PX", "120000"}
	c := rig.StartCluster(t, 3, 0)
	args := []string{"--upstream", c.Addrs(), "--lock-compat", "{half}:"}
	quick := rig.Connect(t, rig.StartProxy(t, append(args, "--retry-budget", "300ms")...).Addr)
	patient := rig.Connect(t, rig.StartProxy(t, append(args, "--retry-budget", "2m")...).Addr)
	fences := make(map[string]int64)
	for _, name := range []string{"{half}:held", "{half}:freed"} {
		fences[name] = quick.Must(t, "LOCK", name, "TOKEN", "t", "PX", "120000").Elems[1].Int()
	}
	quick.Must(t, lock...)
	h := leaveHalfMoved(t, t, c, "half")
	nobodyElse := func(where string) {
		t.Helper()
		for _, name := range []string{"{half}:held", "{half}:library", "{half}:new"} {
			if v := quick.Call(t, "LOCK", name, "TOKEN", "u"); !v.Null && !v.IsError("TRYAGAIN") {
				t.Errorf("%s: LOCK of %s: %s", where, name, v)
			}
		}
		again := slices.Clone(lock)
		again[slices.Index(again, "{half}:library")] = "{half}:held"
		if v := quick.Call(t, again...); !v.Null {
			t.Errorf("%s: the library gets a lock that is held: %s", where, v)
		}
	}
	nobodyElse("all is at the source")
	if v := quick.Must(t, "RENEW", "{half}:held", "t", "PX", "120000"); v.Int() == 0 {
		t.Error("RENEW at the source: 0")
	}
	quick.Want(t, "(integer) 1", "UNLOCK", "{half}:freed", "t")
	h.fence(h.to)
	nobodyElse("the fence is at the target")
	h.fence(h.from)
	h.migrate("{half}:held", h.from, h.to)
	nobodyElse("a lock is at the target")
	patient.Send("LOCK", "{half}:new", "TOKEN", "p", "PX", "60000")
	if !patient.Silent(time.Second) {
		t.Error("an answer before the slot has moved")
	}
	c.Migrate(t, h.slot, h.from, h.to, 0)
	v, err := patient.Receive(rig.Patience)
	if err != nil || len(v.Elems) != 4 || v.Elems[1].Int() <= fences["{half}:freed"] {
		t.Errorf("when the slot has moved: %s %v", v, err)
	}
	quick.Want(t, "(nil)", "LOCK", "{half}:library", "TOKEN", "u")
	if v := quick.Must(t, "LOCKCTL", "CHECK", "{half}:held", "t"); len(v.Elems) != 3 ||
		v.Elems[1].Int() != fences["{half}:held"] {
		t.Errorf("CHECK when the slot has moved: %s", v)
	}
	quick.Want(t, "(integer) 1", "UNLOCK", "{half}:held", "t")
	quick.Want(t, "(integer) 1", "UNLOCK", "{half}:new", "p")
}

// A Redis that comes back empty has lost locks in the form of another library like all others. Their former
// holders are told, and do not free what a library, or another client, has taken since. R31
func TestCompatAfterARestart(t *testing.T) {
	t.Parallel()
	redis := rig.StartRedis(t)
	p := rig.StartProxy(t, "--upstream", redis.Addr, "--lock-compat", "set:")
	c, keeper := rig.Connect(t, p.Addr), rig.Connect(t, p.Addr)
	c.Must(t, "LOCK", "set:job", "TOKEN", "t", "PX", "120000")
	fence := keeper.Must(t, "LOCK", "set:kept", "TOKEN", "k", "PX", "5000", "KEEPALIVE").Elems[1].Int()
	redis.Restart(t)
	rig.Eventually(t, rig.Patience, "Redis answers", func() bool {
		return c.Call(t, "SET", "set:job", "x", "NX", "PX", "120000").Text == "OK"
	})
	c.Want(t, "(integer) 0", "RENEW", "set:job", "t")
	c.Want(t, "(nil)", "UNLOCK", "set:job", "t")
	c.Want(t, "(nil)", "LOCK", "set:job", "TOKEN", "u")
	rig.Eventually(t, rig.Patience, "the loss of what was kept alive is told", func() bool {
		return c.Call(t, "LOCKCTL", "CHECK", "set:kept", "k").IsError("LOCKLOST")
	})
	v := c.Must(t, "LOCK", "set:kept", "TOKEN", "u", "PX", "60000")
	if len(v.Elems) != 4 || v.Elems[1].Int() <= fence {
		t.Errorf("after the loss: %s, the fence was %d", v, fence)
	}
	c.Want(t, `"x"`, "GET", "set:job")
}
