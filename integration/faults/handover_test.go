package faults

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"lockproxy/integration/rig"
)

// A proxy is killed in the middle of hand-overs, again and again, while clients of two proxies contend. Now
// and then Redis has just granted the lock to a client that is never told. These clients come back over the
// other proxy, half of them with the same LOCK and half with UNLOCK, and then the lock goes on, though leases
// last for longer than the test. R25 R33
func TestKilledInHandOvers(t *testing.T) {
	t.Parallel()
	redis := rig.StartRedis(t)
	live := rig.StartProxy(t, "--upstream", redis.Addr)
	for i := range rig.Dose(3, 200) {
		killedInHandOvers(t, redis, live, fmt.Sprint("handed on ", i))
	}
}

// killedInHandOvers kills a proxy once.
func killedInHandOvers(t *testing.T, redis *rig.Server, live *rig.Proxy, lock string) *witness {
	const each = 8
	doomed := rig.StartProxy(t, "--upstream", redis.Addr)
	w, end := &witness{}, make(chan struct{})
	var group sync.WaitGroup
	for i := range 2 * each {
		group.Go(func() {
			p, proxy, token := live, 0, fmt.Sprint("client", i)
			if i < each {
				p, proxy = doomed, 1
			}
			err := contend(p, proxy, i, lock, tenMinutes, 0, end, w)
			switch {
			case err == nil:
				return
			case p == live:
				t.Errorf("client %d: %v", i, err)
				return
			case i%2 == 0:
				v, err := rig.Ask(live.Addr, "LOCK", lock, "TOKEN", token, "PX", "600000", "WAIT", "600000")
				if err != nil || len(v.Elems) != 4 {
					t.Errorf("client %d over the other proxy: %s %v", i, v, err)
				}
			}
			if v, err := rig.Ask(live.Addr, "UNLOCK", lock, token); err != nil || v.IsError() {
				t.Errorf("UNLOCK of client %d: %s %v", i, v, err)
			}
		})
	}
	w.await(300, time.Time{})
	time.Sleep(rand.N(5 * time.Millisecond))
	killed := time.Now()
	doomed.Kill()
	w.await(100, killed.Add(100*time.Millisecond))
	close(end)
	group.Wait()
	w.check(t, 400)
	return w
}
