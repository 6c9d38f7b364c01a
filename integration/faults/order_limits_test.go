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

// overtakings counts how often a grant went to someone who had asked more than
// slack later than somebody who was still waiting.
func (w *witness) overtakings(slack time.Duration) int {
	n := 0
	for i, g := range w.grants {
		if slices.ContainsFunc(w.grants[i+1:], func(later grant) bool {
			return later.asked.Add(slack).Before(g.asked)
		}) {
			n++
		}
	}
	return n
}

// longestGap is the longest time between two grants.
func (w *witness) longestGap() time.Duration {
	var longest time.Duration
	for i := 1; i < len(w.grants); i++ {
		longest = max(longest, w.grants[i].got.Sub(w.grants[i-1].got))
	}
	return longest
}

// probe asks each proxy for a key, over and over, until longest is called, which returns how long an answer
// took at most.
func probe(t *testing.T, proxies ...*rig.Proxy) (longest func() time.Duration) {
	t.Helper()
	end := make(chan struct{})
	var group sync.WaitGroup
	var most atomic.Int64
	for _, p := range proxies {
		c := rig.Connect(t, p.Addr)
		group.Go(func() {
			for {
				select {
				case <-end:
					return
				case <-time.After(time.Millisecond):
				}
				asked := time.Now()
				if _, err := c.Do("GET", "probe"); err != nil {
					t.Errorf("GET: %v", err)
					return
				}
				for took := int64(time.Since(asked)); ; {
					if before := most.Load(); took <= before || most.CompareAndSwap(before, took) {
						break
					}
				}
			}
		})
	}
	return func() time.Duration {
		close(end)
		group.Wait()
		return time.Duration(most.Load())
	}
}

// First come, first served, for fifty clients of two proxies. R25
func TestLimitTwoProxiesServeInOrder(t *testing.T) {
	proxies := twoOverSharedCluster(t)
	longest := probe(t, proxies...)
	w := contendOver(t, proxies, "in order")
	// Asking, being queued and reading the answer take their time on a busy machine: whoever asked this much
	// earlier stands before.
	slack := 600*time.Millisecond + 3*longest()
	if n := w.overtakings(slack); n > 0 {
		t.Errorf("%d of %d grants overtook somebody who had waited %v longer", n, len(w.grants), slack)
	}
}

// The seventy waiters of a killed proxy cost the others a moment, and not half a second one by one. R25
func TestLimitWaitersOfKilledProxyCostAMoment(t *testing.T) {
	if gap := killedWhileContending(t).longestGap(); gap > 2*time.Second+5*time.Second {
		t.Errorf("nobody got the lock for %v; a lease is 2s", gap)
	}
}

// A lock that was granted to a client that is never told goes on in half a second. R25 R33
func TestLimitKilledInHandOversTakesAMoment(t *testing.T) {
	redis := rig.StartRedis(t)
	live := rig.StartProxy(t, "--upstream", redis.Addr)
	var longest time.Duration
	for i := range rig.Dose(5, 200) {
		gap := killedInHandOvers(t, redis, live, fmt.Sprint("handed on soon ", i)).longestGap()
		longest = max(longest, gap)
		if gap > 1500*time.Millisecond {
			t.Errorf("nobody got the lock for %v", gap)
		}
	}
	t.Logf("the lock went on after %v at most", longest)
}

// Whoever waits keeps the place in the queue through an outage. R25
func TestLimitQueueKeepsItsOrderThroughAnOutage(t *testing.T) {
	for lock, order := range queuesOutliveOutages(t, rig.Dose(2, 20)) {
		if !slices.IsSorted(order) {
			t.Errorf("%s: served in the order %v", lock, order)
		}
	}
}

// Waiters of a proxy that is stopped or cut off hold those of another up for a reservation, and not each. R25
func TestLimitWaitersOfStoppedProxyCostAMoment(t *testing.T) {
	for name, fault := range stoppedProxies {
		t.Run(name, func(t *testing.T) {
			took := waitersOfStoppedProxy(t, "soon:"+name, fault.stop, fault.goOn)
			if took > 5*time.Second {
				t.Errorf("past its 60 waiters: %v", took)
			}
		})
	}
}

// When a replica has taken over, clients are served within half a second, and other shards are not slower
// meanwhile. R33
func TestLimitServedSoonAfterPromotion(t *testing.T) {
	const budget, soon = 2 * time.Second, 500 * time.Millisecond // the promotion takes longer than the budget
	for _, fault := range masterFaults {
		t.Run(fault.name, func(t *testing.T) {
			s := fault.strike(t, 20, budget)
			if s.promotion < budget {
				t.Error("the promotion was so fast that the test did not test")
			}
			if last := slices.Max(slices.Concat(s.waiting, s.fresh)); last > soon {
				t.Errorf("served %v after the promotion", last)
			}
			if fault.whole == "no" && s.meanwhile > 2*s.before+5*time.Millisecond {
				t.Errorf("99th percentile elsewhere %v, before %v", s.meanwhile, s.before)
			}
		})
	}
}
