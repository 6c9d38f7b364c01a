package quorum_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"lockproxy/redlock"
	"lockproxy/redlock/internal/proxies"
)

// asked is how many requests the masters were sent.
func (s *network) asked() (n int) {
	for _, links := range s.links {
		for _, l := range links {
			l.mu.Lock()
			n += l.asked
			l.mu.Unlock()
		}
	}
	return n
}

// Who comes behind others of the same proxy is not asked for, and whoever waits first gets the lock in the
// round trip that releases it, but for each fifth time. R14 R27
func TestQuorumHandsOn(t *testing.T) {
	const masters, waiters, mostPassed = 3, 10, 4
	onNetwork(t, masters, 1, func(t *testing.T, s *network) {
		l := s.proxies[0]
		r := mustLock(t, l, redlock.Acquire{Lease: 20 * time.Second})
		first := beginAt(t.Context(), l, redlock.Acquire{Wait: time.Minute, Lease: 20 * time.Second})
		before := s.asked()
		queue := []chan proxies.Result{first}
		for range waiters - 1 {
			queue = append(queue, beginAt(t.Context(), l, redlock.Acquire{
				Wait: time.Minute, Lease: 20 * time.Second,
			}))
		}
		if n := s.asked() - before; n > 0 {
			t.Errorf("%d requests for those who came behind others", n)
		}
		for i, done := range queue {
			before, began := s.asked(), time.Now()
			mustUnlock(t, l, r.Token, r.Fence, 1)
			r = proxies.Granted(t, done)
			took, n := r.At.Sub(began), s.asked()-before
			if i%(mostPassed+1) < mostPassed && (took > 1100*time.Microsecond || n > 2*masters) ||
				took > 6*time.Millisecond {
				t.Errorf("hand-over %d took %v and %d requests", i, took, n)
			}
			proxies.Waiting(t, queue[i+1:]...)
		}
		mustUnlock(t, l, r.Token, r.Fence, 1)
	})
}

// A lock that goes on to somebody who leaves at that moment goes on to the next one, and nothing is left. R15
// R27
func TestQuorumHandsOnToWhoLeaves(t *testing.T) {
	for _, when := range []time.Duration{-time.Millisecond, 0, 500 * time.Microsecond, time.Millisecond,
		1500 * time.Microsecond} {
		t.Run(when.String(), func(t *testing.T) {
			onNetwork(t, 3, 1, func(t *testing.T, s *network) {
				l := s.proxies[0]
				r := mustLock(t, l, redlock.Acquire{Lease: 20 * time.Second})
				ctx, leave := context.WithCancel(t.Context())
				first := beginAt(ctx, l, redlock.Acquire{Wait: time.Minute, Lease: 20 * time.Second})
				second := beginAt(t.Context(), l, redlock.Acquire{Wait: time.Minute, Lease: 20 * time.Second})
				time.Sleep(50 * time.Millisecond)
				time.AfterFunc(5*time.Millisecond+when, leave)
				time.Sleep(5 * time.Millisecond)
				mustUnlock(t, l, r.Token, r.Fence, 1)
				if r := <-first; r.OK {
					mustUnlock(t, l, r.Token, r.Fence, 1)
				}
				began := time.Now()
				r = proxies.Granted(t, second)
				if took := r.At.Sub(began); took > 10*time.Millisecond {
					t.Errorf("the second got it after %v", took)
				}
				mustUnlock(t, l, r.Token, r.Fence, 1)
				time.Sleep(time.Second)
				if err := s.free(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// Clients of one proxy that never stop asking do not keep the lock from those of another one. R14 R27
func TestQuorumProxiesShare(t *testing.T) {
	onNetwork(t, 3, 2, func(t *testing.T, s *network) {
		var busy sync.WaitGroup
		var grants, over atomic.Int64
		for range 8 {
			busy.Go(func() {
				for over.Load() == 0 {
					r := lockAt(t.Context(), s.proxies[0], redlock.Acquire{
						Wait: time.Minute, Lease: 20 * time.Second,
					})
					if !r.OK {
						t.Error(r.Err)
						return
					}
					grants.Add(1)
					time.Sleep(time.Millisecond)
					if n, err := unlockAt(s.proxies[0], r.Token, r.Fence); n != 1 {
						t.Error(n, err)
					}
				}
			})
		}
		time.Sleep(20 * time.Millisecond)
		before := grants.Load()
		r := lockAt(t.Context(), s.proxies[1], redlock.Acquire{
			Wait: 50 * time.Second, Lease: 20 * time.Second,
		})
		if n := grants.Load() - before; !r.OK || n > 200 {
			t.Error(fmt.Errorf("%v after %d grants to others: %w", r.OK, n, r.Err))
		}
		over.Store(1)
		if r.OK {
			mustUnlock(t, s.proxies[1], r.Token, r.Fence, 1)
		}
		busy.Wait()
	})
}
