package faults

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"lockproxy/integration/rig"
)

// Many more clients than a node can serve: with shed-after some are refused, and may ask again, the others
// are served. Locks are not refused. Behind that all is as before.
func TestOverloadedNode(t *testing.T) {
	t.Parallel()
	const clients, each = 100, 5
	busy := rig.StartLink(t, rig.StartRedis(t).Addr)
	p := rig.StartProxy(t, "--upstream", busy.Addr(), "--shed-after", "100ms", "--loops", "1")
	c, locker := rig.Connect(t, p.Addr), rig.Connect(t, p.Addr)
	busy.Pace(5 * time.Millisecond)
	var shed atomic.Int64
	var group sync.WaitGroup
	for range clients {
		client := rig.Connect(t, p.Addr)
		group.Go(func() {
			for served := 0; served < each; {
				switch v, err := client.Do("GET", "absent"); {
				case err == nil && v.Null:
					served++
				case err == nil && v.IsError("BUSY"):
					shed.Add(1)
					time.Sleep(100 * time.Millisecond)
				default:
					t.Errorf("GET: %s %v", v, err)
					return
				}
			}
		})
	}
	for n := 0; n < 5 || shed.Load() == 0; n++ {
		if v := locker.Must(t, "LOCK", "job", "TOKEN", "t", "PX", "600000"); len(v.Elems) != 4 {
			t.Fatalf("LOCK: %s", v)
		}
		locker.Want(t, "(integer) 1", "UNLOCK", "job", "t")
	}
	group.Wait()
	if n := int64(p.Metric(t, "lockproxy_shed_total")); n != shed.Load() {
		t.Errorf("lockproxy_shed_total is %d, and %d commands were refused", n, shed.Load())
	}
	// All is as before once nothing was refused for ten times as long.
	rig.Eventually(t, rig.Patience, "nothing is refused", func() bool {
		return c.Call(t, "GET", "absent").Null
	})
}
