//go:build limits

package faults

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"lockproxy/integration/rig"
)

// load are the answers that clients got who ask a node for more than it can do.
type load struct {
	served, shed atomic.Int64
	others       atomic.Pointer[string] // an answer that was neither

	mu    sync.Mutex
	times []time.Duration // of those that were served
}

// median is how long half of the answers took at most.
func (l *load) median() time.Duration {
	slices.Sort(l.times)
	return l.times[len(l.times)/2]
}

// offer has clients ask, one after the other, for a time. Who is refused asks again after a pause.
func offer(t *testing.T, p *rig.Proxy, clients int, lasts time.Duration) *load {
	t.Helper()
	l := &load{}
	var group sync.WaitGroup
	for range clients {
		group.Go(func() {
			c, err := rig.Dial(p.Addr)
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			for end := time.Now().Add(lasts); time.Now().Before(end); {
				began := time.Now()
				v, err := c.Do("GET", "absent")
				switch {
				case err == nil && v.Null:
					l.served.Add(1)
					l.mu.Lock()
					l.times = append(l.times, time.Since(began))
					l.mu.Unlock()
				case err == nil && v.IsError("BUSY"):
					l.shed.Add(1)
					time.Sleep(300 * time.Millisecond)
				default:
					text := v.String()
					l.others.Store(&text)
					return
				}
			}
		})
	}
	group.Wait()
	if other := l.others.Load(); other != nil {
		t.Errorf("an answer: %s", *other)
	}
	return l
}

// Many more clients than a node can serve: with shed-after those who are not refused are answered sooner than
// all are without it, and the node does as much.
func TestLimitSheddingIsWorthIt(t *testing.T) {
	t.Parallel()
	busy := rig.StartLink(t, rig.StartRedis(t).Addr)
	plain := rig.StartProxy(t, "--upstream", busy.Addr())
	sheds := rig.StartProxy(t, "--upstream", busy.Addr(), "--shed-after", "100ms")
	busy.Pace(5 * time.Millisecond)
	before, after := overload(t, plain, sheds)
	said := fmt.Sprintf("all waited: %d, half in %v; with shed-after: %d, half in %v; refused: %d",
		before.served.Load(), before.median(), after.served.Load(), after.median(), after.shed.Load())
	t.Log(said)
	if before.shed.Load() > 0 || after.shed.Load() == 0 || after.median() > before.median()/2 ||
		after.served.Load() < before.served.Load()*6/10 {
		t.Error(said)
	}
}

// overload has the same clients ask both proxies, one after the other, for more than the node can do.
func overload(t *testing.T, plain, sheds *rig.Proxy) (before, after *load) {
	const clients = 200
	lasts := rig.Dose(5*time.Second, time.Minute)
	return offer(t, plain, clients, lasts), offer(t, sheds, clients, lasts)
}
