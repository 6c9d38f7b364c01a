package faults

import (
	"fmt"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"lockproxy/integration/rig"
)

// A hold whose connection broke is kept alive by its proxy, until another connection takes it over, through
// whatever proxy; a proxy that ends leaves it to the others. R18 R24
func TestLingeringIsTakenOver(t *testing.T) {
	for name, start := range map[string]func(t *testing.T) (a, b *rig.Proxy, lease string){
		"one Redis": func(t *testing.T) (a, b *rig.Proxy, lease string) {
			addr := rig.SharedRedis().Addr
			return rig.StartProxy(t, "--upstream", addr), rig.StartProxy(t, "--upstream", addr), "8000"
		},
		"RedLock": func(t *testing.T) (a, b *rig.Proxy, lease string) {
			three, args := rig.StartMasters(t, 3), []string{"--upstream", rig.SharedRedis().Addr,
				"--redlock-max-lease", "20s", "--lock-lease", "20s"}
			return three.StartRedlock(t, 20*time.Second, args...), three.StartRedlock(t, 20*time.Second,
				args...), "20000" // the shortest that there is
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, b, lease := start(t)
			outlive := func(d time.Duration) { // takes too long with long leases
				if lease == "8000" {
					time.Sleep(d)
				}
			}
			lock, other := "lingers:"+t.Name(), rig.Connect(t, b.Addr)
			lingering := func(p *rig.Proxy, n float64) {
				t.Helper()
				rig.Eventually(t, rig.Patience, "as many holds linger", func() bool {
					return p.Metric(t, "lockproxy_lock_lingering") == n
				})
			}
			for _, breaks := range []func(*rig.Conn){func(c *rig.Conn) { c.Close() }, (*rig.Conn).BreakOff} {
				holder := rig.Connect(t, a.Addr)
				fence := holder.Must(t, "LOCK", lock, "TOKEN", "t", "PX", lease, "KEEPALIVE", "LINGER",
					"15000").Elems[1].Text
				holder.Want(t, "PONG", "PING") // the grant is read
				breaks(holder)
				lingering(a, 1)
				outlive(9 * time.Second)
				other.Want(t, "(nil)", "LOCK", lock)
				if left := other.Must(t, "RENEW", lock, "t", "PX", lease, "KEEPALIVE").Int(); left == 0 {
					t.Error("it has not lingered")
				}
				lingering(a, 0)
				outlive(7 * time.Second) // its time there is over
				v := other.Must(t, "LOCKCTL", "CHECK", lock, "t")
				if len(v.Elems) != 3 || v.Elems[1].Text != fence {
					t.Errorf("taken over: %s", v)
				}
				other.Want(t, "(integer) 1", "UNLOCK", lock, "t")
			}

			holder := rig.Connect(t, a.Addr)
			holder.Must(t, "LOCK", lock, "TOKEN", "t", "PX", "20000", "KEEPALIVE", "LINGER", "20000")
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
	for _, product := range []string{"redis6", "valkey9"} {
		t.Run(product, func(t *testing.T) {
			t.Parallel()
			c := rig.StartCluster(rig.On(t, product), 3, 0)
			a, b := rig.StartProxy(t, "--upstream", c.Addrs()), rig.StartProxy(t, "--upstream", c.Addrs())
			other, names := rig.Connect(t, b.Addr), []string{"{half}:moved", "{half}:stays"}
			fences := make(map[string]int64)
			for _, name := range names { // one each, whose end is not that of the other
				holder := rig.Connect(t, a.Addr)
				fences[name] = holder.Must(t, "LOCK", name, "TOKEN", "t", "PX", "5000", "KEEPALIVE",
					"LINGER", "120000").Elems[1].Int()
				holder.Want(t, "PONG", "PING") // the grant is read
				holder.BreakOff()
			}
			rig.Eventually(t, rig.Patience, "both linger", func() bool {
				return a.Metric(t, "lockproxy_lock_lingering") == 2
			})
			lasts := func(where string) {
				t.Helper()
				time.Sleep(6 * time.Second) // more than a lease
				for _, name := range names {
					v := other.Must(t, "LOCKCTL", "CHECK", name, "t")
					if len(v.Elems) != 3 || v.Elems[1].Int() != fences[name] {
						t.Fatalf("%s: %s is %s, want the fence %d", where, name, v, fences[name])
					}
				}
			}
			h := leaveHalfMoved(t, rig.On(t, product), c, "half")
			h.move(names[0], h.from, h.to)
			lasts("the slot and one lock are leaving")
			if v := other.Must(t, "RENEW", names[0], "t", "PX", "5000", "KEEPALIVE"); v.Int() == 0 {
				t.Error("it has not lingered")
			}
			// The other proxy asks about it once it can hear. That is to be answered before fence has the
			// source take the slot for its own for a moment, without the lock.
			time.Sleep(2 * time.Second)
			h.fence(h.to)
			c.Migrate(t, h.slot, h.from, h.to, 0)
			if v := other.Must(t, "RENEW", names[1], "t", "PX", "5000", "KEEPALIVE"); v.Int() == 0 {
				t.Error("it has not lingered")
			}
			lasts("the slot has moved, and the other proxy keeps both")
			rig.Eventually(t, rig.Patience, "none lingers", func() bool {
				return a.Metric(t, "lockproxy_lock_lingering") == 0
			})
			for _, name := range names {
				other.Want(t, "(integer) 1", "UNLOCK", name, "t")
			}
		})
	}
}

// While a slot moves, its source may take it for its own for a moment, without its keys: a hold that is kept
// alive at the target is not lost because of that. R18 R24
func TestKeptWhereASlotIsStableForAMoment(t *testing.T) {
	t.Parallel()
	for _, product := range []string{"redis6", "valkey9"} {
		t.Run(product, func(t *testing.T) {
			t.Parallel()
			l := rig.On(t, product)
			c := rig.StartCluster(l, 3, 0)
			p := rig.StartProxy(t, "--upstream", c.Addrs())
			client := rig.Connect(t, p.Addr)
			client.Must(t, "LOCK", "{half}:before", "TOKEN", "t", "PX", "6000", "KEEPALIVE")
			rig.Eventually(t, rig.Patience, "the source knows the script", func() bool {
				return p.Metric(t, "lockproxy_lock_renewals_total") > 0
			})
			client.Want(t, "(integer) 1", "UNLOCK", "{half}:before", "t")
			h := leaveHalfMoved(t, l, c, "half")
			for i := 0; ; i++ {
				name := fmt.Sprint("{half}:", i)
				fence := client.Must(t, "LOCK", name, "TOKEN", "t", "PX", "6000", "KEEPALIVE").Elems[1].Int()
				h.holds(h.to, name)
				moment := h.stable(name)
				// Up to here the machine may have been too slow for what the proxy waits for.
				if moment < 200*time.Millisecond {
					time.Sleep(7 * time.Second) // more than a lease
					v := client.Call(t, "LOCKCTL", "CHECK", name, "t")
					if len(v.Elems) != 3 || v.Elems[1].Int() != fence {
						t.Fatalf("the source took the slot for its own for %v: %s", moment, v)
					}
					return
				}
				if i == 20 {
					t.Fatalf("never less than 200ms, the last time %v", moment)
				}
			}
		})
	}
}

// stable has the source take the slot for its own until somebody has asked it about a lock that is at the
// target. It returns how long that lasted from the question on.
func (h *halfMoved) stable(name string) time.Duration {
	h.t.Helper()
	slot, to := strconv.Itoa(h.slot), h.to.Do(h.t, "CLUSTER", "MYID").Text
	monitor, source := rig.Connect(h.t, h.from.Addr), rig.Connect(h.t, h.from.Addr)
	monitor.Want(h.t, "OK", "MONITOR")
	source.Want(h.t, "OK", "CLUSTER", "SETSLOT", slot, "STABLE")
	for {
		v, err := monitor.Receive(rig.Patience) // 1339518083.107412 [0 127.0.0.1:60866] "EVALSHA" ...
		if err != nil {
			h.t.Fatalf("nobody asks about %s: %v", name, err)
		}
		when, what, _ := strings.Cut(v.Text, " ")
		if !strings.Contains(what, `"lock:`+name+`"`) {
			continue
		}
		source.Want(h.t, "OK", "CLUSTER", "SETSLOT", slot, "MIGRATING", to)
		at, err := strconv.ParseFloat(when, 64)
		if err != nil {
			h.t.Fatalf("%q: %v", v.Text, err)
		}
		return time.Since(time.UnixMicro(int64(at * 1e6)))
	}
}
