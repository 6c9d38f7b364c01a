package quorum_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"lockproxy/redlock"
	"lockproxy/redlock/internal/rig"
	"lockproxy/redlock/locks"
)

// takeOver asks with BREAK, and says whether holds of others have ended by that.
func takeOver(t *testing.T, l *locks.Locker, a redlock.Acquire) (g redlock.Grant, ok, broke bool) {
	t.Helper()
	a.Name, a.Break = "job", true
	if a.Mode == "" {
		a.Mode = redlock.Write
	}
	q := l.NewAcquire(a)
	g, ok, err := (&rig.Asker{L: l}).Acquire(q)
	if err != nil {
		t.Errorf("%s: %v", a.Token, err)
	}
	return g, ok, q.Broke
}

// LOCK with BREAK takes a lock over from whoever has it on a majority, while a minority is away, and before
// those who wait. R23 R27
func TestQuorumTakesOver(t *testing.T) {
	onNetwork(t, 5, 2, func(t *testing.T, s *network) {
		l, other := s.proxies[0], s.proxies[1]
		last := int64(0)
		taken := func(l *locks.Locker, token string, mode redlock.Mode, wantBroke bool) {
			t.Helper()
			g, ok, broke := takeOver(t, l, redlock.Acquire{Token: token, Mode: mode, Lease: 20 * time.Second})
			if !ok || broke != wantBroke || g.Fence <= last {
				t.Errorf("%s: %+v %v, broke %v, after the fence %d", token, g, ok, broke, last)
			}
			last = g.Fence
		}
		taken(l, "a", redlock.Write, false)
		s.masters[0].crash()
		s.masters[4].crash()
		taken(other, "b", redlock.Write, true)
		mustUnlock(t, l, "a", 0, -1)
		waits := beginAt(t.Context(), l, redlock.Acquire{Token: "w", Wait: time.Minute})
		time.Sleep(100 * time.Millisecond)
		taken(l, "r1", redlock.Read, true)
		mustLock(t, other, redlock.Acquire{Token: "r2", Mode: redlock.Read, Lease: 20 * time.Second})
		last++
		taken(other, "r2", redlock.Write, true)
		mustUnlock(t, l, "r1", 0, -1)
		mustUnlock(t, other, "r2", 0, 1)
		if r := <-waits; !r.OK || r.Err != nil {
			t.Errorf("who waited: %+v", r)
		}
		mustUnlock(t, l, "w", 0, 1)
		s.masters[0].up()
		s.masters[4].up()
		time.Sleep(10 * time.Second) // until they vote
		if err := s.free(); err != nil {
			t.Error(err)
		}
	})
}

// Many readers end in several steps on each master.
func TestQuorumTakesOverFromReaders(t *testing.T) {
	const n = 200
	meta := fmt.Sprintf("%01024d", 0)
	onNetwork(t, 3, 1, func(t *testing.T, s *network) {
		for i := range n {
			mustLock(t, s.proxies[0], redlock.Acquire{
				Token: fmt.Sprint("r", i), Mode: redlock.Read, Lease: time.Minute, Meta: meta})
		}
		if g, ok, broke := takeOver(t, s.proxies[0], redlock.Acquire{Token: "w"}); !ok || !broke {
			t.Errorf("%+v %v, broke %v", g, ok, broke)
		}
		mustUnlock(t, s.proxies[0], "r0", 0, -1)
		mustUnlock(t, s.proxies[0], fmt.Sprint("r", n-1), 0, -1)
		mustUnlock(t, s.proxies[0], "w", 0, 1)
	})
}

// A hold whose fence is ahead of all clocks, since those have stepped back, can be taken over too.
func TestQuorumTakesOverWhatIsAhead(t *testing.T) {
	onNetwork(t, 5, 2, func(t *testing.T, s *network) {
		for _, m := range s.masters {
			m.ahead = 40 * time.Second
		}
		g := mustLock(t, s.proxies[0], redlock.Acquire{Token: "a", Lease: 30 * time.Second})
		for _, m := range s.masters {
			m.step(0)
		}
		for _, links := range s.links {
			for _, l := range links {
				l.look()
			}
		}
		time.Sleep(10 * time.Second) // until they vote
		for i, l := range s.proxies {
			token := fmt.Sprint("b", i)
			next, ok, broke := takeOver(t, l, redlock.Acquire{Token: token, Lease: 30 * time.Second})
			if !ok || !broke || next.Fence <= g.Fence || next.Fence > g.Fence+2e6 {
				t.Errorf("%s: %+v %v, broke %v, after %+v", token, next, ok, broke, g)
			}
			g.Fence = next.Fence
		}
		mustUnlock(t, s.proxies[1], "b1", 0, 1)
	})
}

// Of clients that break one lock at the same moment, the one with the highest fence has it in the end, also
// when requests arrive in another order at each master.
func TestQuorumTakesOverTogether(t *testing.T) {
	onNetwork(t, 5, 3, func(t *testing.T, s *network) {
		var mu sync.Mutex
		random := rand.New(rand.NewPCG(3, 3))
		for _, links := range s.links {
			for _, l := range links {
				l.delay = func() time.Duration {
					mu.Lock()
					defer mu.Unlock()
					return time.Duration(100+random.IntN(5_000)) * time.Microsecond
				}
			}
		}
		both := 0
		for round := range 60 {
			var all sync.WaitGroup
			fences := make([]int64, len(s.proxies))
			for i, l := range s.proxies {
				all.Go(func() {
					token := fmt.Sprintf("t%d.%d", round, i)
					if g, ok, _ := takeOver(t, l, redlock.Acquire{Token: token, Lease: time.Minute}); ok {
						fences[i] = g.Fence
					}
				})
			}
			all.Wait()
			time.Sleep(100 * time.Millisecond) // what is on its way arrives
			last, granted := 0, 0
			for i, fence := range fences {
				if fence > 0 {
					granted++
				}
				if fence > fences[last] {
					last = i
				}
			}
			if granted == 0 {
				continue
			}
			if granted > 1 {
				both++
			}
			mustUnlock(t, s.proxies[last], fmt.Sprintf("t%d.%d", round, last), fences[last], 1)
			time.Sleep(100 * time.Millisecond)
		}
		if both == 0 {
			t.Error("no two of them were granted the lock")
		}
	})
}
