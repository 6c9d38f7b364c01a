package faults

import (
	"syscall"
	"testing"

	"lockproxy/integration/rig"
)

// A hold whose connection broke is kept alive by its proxy, until another connection takes it over, through
// whatever proxy; a proxy that ends leaves it to the others. R18 R24
func TestLingeringIsTakenOver(t *testing.T) {
	for name, start := range map[string]func(t *testing.T) (a, b *rig.Proxy, lease, linger string){
		"one Redis": func(t *testing.T) (a, b *rig.Proxy, lease, linger string) {
			addr := rig.SharedRedis().Addr
			a, b = rig.StartProxy(t, "--upstream", addr), rig.StartProxy(t, "--upstream", addr)
			return a, b, "9000", "600000"
		},
		"RedLock": func(t *testing.T) (a, b *rig.Proxy, lease, linger string) {
			upstream := rig.SharedRedis().Addr
			return startOldRedlock(t, upstream), startOldRedlock(t, upstream), "20000", "20000"
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, b, lease, linger := start(t)
			lock, other := "lingers:"+t.Name(), rig.Connect(t, b.Addr)
			lingering := func(p *rig.Proxy, n float64) {
				t.Helper()
				rig.Eventually(t, rig.Patience, "as many holds linger", func() bool {
					return p.Metric(t, "lockproxy_lock_lingering") == n
				})
			}
			for _, breaks := range []func(*rig.Conn){func(c *rig.Conn) { c.Close() }, breakOff} {
				holder := rig.Connect(t, a.Addr)
				fence := holder.Must(t, "LOCK", lock, "TOKEN", "t", "PX", lease, "KEEPALIVE", "LINGER",
					linger).Elems[1].Text
				holder.Want(t, "PONG", "PING") // the grant is read
				breaks(holder)
				lingering(a, 1)
				if lease == "9000" { // with a longer one it takes too long
					renewed(t, other, lock, "t")
				}
				other.Want(t, "(nil)", "LOCK", lock)
				if left := other.Must(t, "RENEW", lock, "t", "PX", lease, "KEEPALIVE").Int(); left == 0 {
					t.Error("it has not lingered")
				}
				lingering(a, 0)
				v := other.Must(t, "LOCKCTL", "CHECK", lock, "t")
				if len(v.Elems) != 3 || v.Elems[1].Text != fence {
					t.Errorf("taken over: %s", v)
				}
				other.Want(t, "(integer) 1", "UNLOCK", lock, "t")
			}

			holder := rig.Connect(t, a.Addr)
			holder.Must(t, "LOCK", lock, "TOKEN", "t", "PX", "20000", "KEEPALIVE", "LINGER", linger)
			holder.Close()
			lingering(a, 1)
			a.Signal(syscall.SIGTERM)
			if code := a.Wait(rig.Patience); code != 0 {
				t.Errorf("exit %d", code)
			}
			if left := other.Must(t, "RENEW", lock, "t", "KEEPALIVE").Int(); left == 0 {
				t.Error("the end of the proxy has freed it")
			}
			other.Want(t, "(integer) 1", "UNLOCK", lock, "t")
		})
	}
}

// A hold that lingers is renewed while its slot is half here and half there, wherever the lock and the fence
// are, and when the slot has moved; another proxy takes it over there. R18 R24
func TestLingeringInAMovingSlot(t *testing.T) {
	t.Parallel()
	c := rig.StartCluster(t, 3, 0)
	a, b := rig.StartProxy(t, "--upstream", c.Addrs()), rig.StartProxy(t, "--upstream", c.Addrs())
	other, names := rig.Connect(t, b.Addr), []string{"{half}:moved", "{half}:stays"}
	fences := make(map[string]int64)
	for _, name := range names { // one each, whose end is not that of the other
		holder := rig.Connect(t, a.Addr)
		fences[name] = holder.Must(t, "LOCK", name, "TOKEN", "t", "PX", "9000", "KEEPALIVE",
			"LINGER", "600000").Elems[1].Int()
		holder.Want(t, "PONG", "PING") // the grant is read
		breakOff(holder)
	}
	rig.Eventually(t, rig.Patience, "both linger", func() bool {
		return a.Metric(t, "lockproxy_lock_lingering") == 2
	})
	lasts := func(where string) {
		t.Helper()
		for _, name := range names {
			if fence := renewed(t, other, name, "t"); fence != fences[name] {
				t.Fatalf("%s: %s has the fence %d, want %d", where, name, fence, fences[name])
			}
		}
	}
	h := leaveHalfMoved(t, t, c, "half")
	h.move(names[0], h.from, h.to)
	lasts("the slot and one lock are leaving")
	if v := other.Must(t, "RENEW", names[0], "t", "PX", "9000", "KEEPALIVE"); v.Int() == 0 {
		t.Error("it has not lingered")
	}
	// The other proxy asks about it once it can hear. That is to be answered before fence has the
	// source take the slot for its own for a moment, without the lock.
	rig.Eventually(t, rig.Patience, "one lingers", func() bool {
		return a.Metric(t, "lockproxy_lock_lingering") == 1
	})
	h.fence(h.to)
	c.Migrate(t, h.slot, h.from, h.to, 0)
	if v := other.Must(t, "RENEW", names[1], "t", "PX", "9000", "KEEPALIVE"); v.Int() == 0 {
		t.Error("it has not lingered")
	}
	lasts("the slot has moved, and the other proxy keeps both")
	rig.Eventually(t, rig.Patience, "none lingers", func() bool {
		return a.Metric(t, "lockproxy_lock_lingering") == 0
	})
	for _, name := range names {
		other.Want(t, "(integer) 1", "UNLOCK", name, "t")
	}
}
