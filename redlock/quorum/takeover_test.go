package quorum_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
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

// A request with BREAK that reaches a master late, when others have been granted the lock there, leaves their
// hold alone. R8
func TestQuorumTakesOverLate(t *testing.T) {
	if on := takeOverLate(t, func(*network) {}); on != "[0 1 2]" {
		t.Errorf("who was granted the lock last has it on %s", on)
	}
}

// takeOverLate has one proxy be granted the lock by all masters but the third, and then another one by the
// first three, and then the request of the first arrive at the third. It says where the second has the lock.
func takeOverLate(t *testing.T, alter func(s *network)) (on string) {
	onNetwork(t, 5, 2, func(t *testing.T, s *network) {
		alter(s)
		first, second := s.links[0], s.links[1]
		first[2].delay = func() time.Duration { return 10 * time.Millisecond }
		var healed atomic.Bool
		for _, l := range second[3:] {
			l.fault = func(string) fault {
				if healed.Load() {
					return none
				}
				return lostRequest
			}
		}
		_, ok, _ := takeOver(t, s.proxies[0], redlock.Acquire{Token: "a", Lease: time.Minute})
		if _, then, broke := takeOver(t, s.proxies[1], redlock.Acquire{
			Token: "b", Lease: time.Minute}); !ok || !then || !broke {
			t.Errorf("granted %v, then %v, broke %v", ok, then, broke)
		}
		if at := s.holdsOn("b"); fmt.Sprint(at) != "[0 1 2]" {
			t.Errorf("the second has it on %v", at)
		}
		time.Sleep(100 * time.Millisecond)
		on = fmt.Sprint(s.holdsOn("b"))
		healed.Store(true)
		(&rig.Asker{L: s.proxies[0]}).Breaks("job")
	})
	return on
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
			token := func(i int) string { return fmt.Sprintf("t%d.%d", round, i) }
			for i, l := range s.proxies {
				all.Go(func() {
					r := lockAt(t.Context(), l, redlock.Acquire{
						Token: token(i), Lease: time.Minute, Break: true})
					if fences[i] = r.Fence; r.Err != nil && !noQuorum(r.Err) {
						t.Error(r.Err)
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
			if granted > 1 {
				both++
			}
			if granted > 0 {
				mustUnlock(t, s.proxies[last], token(last), fences[last], 1)
			}
			time.Sleep(100 * time.Millisecond)
		}
		if both == 0 {
			t.Error("no two of them were granted the lock")
		}
	})
}
