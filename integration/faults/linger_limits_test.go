//go:build limits

package faults

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"lockproxy/integration/rig"
)

// While a slot moves, its source may take it for its own for a moment, without its keys: a hold that is kept
// alive at the target is not lost because of that. R18 R24
func TestLimitKeptWhereASlotIsStableForAMoment(t *testing.T) {
	t.Parallel()
	c := rig.StartCluster(t, 3, 0)
	p := rig.StartProxy(t, "--upstream", c.Addrs())
	client := rig.Connect(t, p.Addr)
	client.Must(t, "LOCK", "{half}:before", "TOKEN", "t", "PX", "6000", "KEEPALIVE")
	rig.Eventually(t, rig.Patience, "the source knows the script", func() bool {
		return p.Metric(t, "lockproxy_lock_renewals_total") > 0
	})
	client.Want(t, "(integer) 1", "UNLOCK", "{half}:before", "t")
	h := leaveHalfMoved(t, t, c, "half")
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
