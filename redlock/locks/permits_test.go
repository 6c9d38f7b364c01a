package locks_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"lockproxy/redlock"
	"lockproxy/redlock/internal/proxies"
	"lockproxy/redlock/internal/rig"
)

// permit asks for one of n permits.
func permit(n int, token string, lease, wait time.Duration) redlock.Acquire {
	return redlock.Acquire{Token: token, Mode: redlock.Permit, Permits: n, Lease: lease, Wait: wait}
}

// Many wait for a few permits at two proxies: they are served in their order, each as soon as a permit is
// free, whichever proxy it is released by, and fences rise. On a real Redis all come by one, see
// TestFirstComeFirstServed. R9 R25 R29
func TestPermitsInOrder(t *testing.T) {
	rig.Everywhere(t, func(t *testing.T, s *rig.Server) {
		const permits, many = 3, 50
		p := proxies.Start(t, s, 2)
		if s.Mini == nil {
			p[1] = p[0]
		}
		var holders []string
		for i := range permits {
			holders = append(holders, fmt.Sprint("h", i))
			proxies.Granted(t, p[i%2].Begin(t.Context(), permit(permits, holders[i], minute, 0)))
		}
		var queue []chan proxies.Result
		for i := range many {
			a := permit(permits, fmt.Sprint("t", i), minute, minute)
			queue = append(queue, p[i%2].Begin(t.Context(), a))
		}
		proxies.Waiting(t, queue...)
		last := p[0].State().Fence
		for i := range queue {
			p[(i/2)%2].Unlock(holders[0])
			r := proxies.Granted(t, queue[i])
			if r.Token != fmt.Sprint("t", i) || r.Fence <= last || r.Count != 1 {
				t.Errorf("number %d got %+v, the fence before was %d", i, r, last)
			}
			holders, last = append(holders[1:], r.Token), r.Fence
			state := p[i%2].State()
			if state.Name() != "permits" || state.Used() != permits || state.Permits != permits ||
				state.Waiters != many-1-i {
				t.Errorf("behind number %d: %+v", i, state)
			}
			if r := p[1].Lock(t.Context(), permit(permits, "new", minute, 0)); r.OK || r.Err != nil {
				t.Errorf("a newcomer got it: %+v", r)
			}
		}
		for i, token := range holders {
			p[i%2].Unlock(token)
		}
		s.Empty(t)
	})
}

// As many waiters go on at once as permits become free at once, wherever they wait: because somebody breaks
// the semaphore, or because the leases end. R25 R30
func TestPermitsThatEndTogether(t *testing.T) {
	rig.InFakeTime(t, func(t *testing.T, s *rig.Server) {
		const permits = 4
		p := proxies.Start(t, s, 2)
		for _, broken := range []bool{true, false} {
			lease := 10 * time.Second
			for i := range permits {
				proxies.Granted(t, p[i%2].Begin(t.Context(), permit(permits, fmt.Sprint("h", i), lease, 0)))
			}
			began := time.Now()
			var queue []chan proxies.Result
			for i := range 3 * permits {
				token := fmt.Sprint("t", i)
				queue = append(queue, p[i/2%2].Begin(t.Context(), permit(permits, token, lease, minute)))
			}
			for round := range 3 {
				if broken {
					time.Sleep(100 * time.Millisecond)
					began = time.Now()
					if done, err := p[round%2].Client().Breaks("job"); !done || err != nil {
						t.Fatal(done, err)
					}
				}
				var fences []int64
				for i, done := range queue[:permits] {
					r := proxies.Granted(t, done)
					late := r.At.Sub(began)
					if !broken {
						late -= lease
					}
					if late < -time.Second || late > 20*time.Millisecond {
						t.Errorf("broken %v, round %d: number %d got it %v late", broken, round, i, late)
					}
					fences = append(fences, r.Fence)
				}
				if slices.Sort(fences); len(slices.Compact(fences)) != permits {
					t.Errorf("broken %v, round %d: the fences are %v", broken, round, fences)
				}
				began = time.Now()
				queue = queue[permits:]
				proxies.Waiting(t, queue...)
			}
			p[0].Client().Breaks("job")
			s.Empty(t)
		}
	})
}

// A crashed proxy keeps no permit from those behind its waiters for longer than half a second, once. The
// others that are free then are not held up by it at all. R25
func TestPermitsBehindACrashedProxy(t *testing.T) {
	rig.InFakeTime(t, func(t *testing.T, s *rig.Server) {
		p := proxies.Start(t, s, 3)
		for i := range 2 {
			proxies.Granted(t, p[0].Begin(t.Context(), permit(2, fmt.Sprint("h", i), minute, 0)))
		}
		ctx, crash := context.WithCancel(t.Context())
		var crashed []chan proxies.Result
		for i := range 3 {
			crashed = append(crashed, p[1].Begin(ctx, permit(2, fmt.Sprint("c", i), minute, minute)))
		}
		first := p[2].Begin(t.Context(), permit(2, "first", minute, minute))
		second := p[0].Begin(t.Context(), permit(2, "second", minute, minute))
		p[1].Up.Set(func(u *rig.Upstream) {
			u.Mute = true
			u.Faults = func(string) (error, error) { return errors.New("gone"), nil }
		})
		began := time.Now()
		p[0].Unlock("h0")
		time.Sleep(10 * time.Millisecond)
		p[2].Unlock("h1")
		for _, done := range []chan proxies.Result{first, second} {
			if r := proxies.Granted(t, done); r.At.Sub(began) > 520*time.Millisecond {
				t.Errorf("%s got it after %v", r.Token, r.At.Sub(began))
			}
		}
		p[0].Unlock("first")
		p[0].Unlock("second")
		crash()
		for _, done := range crashed {
			if r := <-done; r.OK {
				t.Errorf("a crashed client got %+v", r)
			}
		}
		p[1].Close(ctx)
		s.Empty(t)
	})
}

// A client that gives up leaves its place, and a permit that it was offered, to the next one. R9
func TestPermitsOfThoseWhoGiveUp(t *testing.T) {
	rig.InFakeTime(t, func(t *testing.T, s *rig.Server) {
		p := proxies.Start(t, s, 2)
		proxies.Granted(t, p[0].Begin(t.Context(), permit(1, "h", minute, 0)))
		ctx, leave := context.WithCancel(t.Context())
		gone := p[0].Begin(ctx, permit(1, "gone", minute, minute))
		late := p[1].Begin(t.Context(), permit(1, "late", minute, 50*time.Millisecond))
		next := p[0].Begin(t.Context(), permit(1, "next", minute, minute))
		if r := <-late; r.OK || r.Err != nil {
			t.Errorf("in vain: %+v", r)
		}
		leave()
		began := time.Now()
		p[1].Unlock("h")
		if r := proxies.Granted(t, next); r.At.Sub(began) > 5*time.Millisecond {
			t.Errorf("it got it after %v", r.At.Sub(began))
		}
		if r := <-gone; r.OK {
			t.Errorf("who had left got %+v", r)
		}
		p[1].Unlock("next")
		s.Empty(t)
	})
}

// Without messages a permit is handed on a second late at most. R25
func TestPermitsWithoutMessages(t *testing.T) {
	rig.InFakeTime(t, func(t *testing.T, s *rig.Server) {
		p := proxies.Start(t, s, 2)
		for _, q := range p {
			q.Up.Set(func(u *rig.Upstream) { u.Mute = true })
		}
		for i := range 2 {
			proxies.Granted(t, p[0].Begin(t.Context(), permit(2, fmt.Sprint("h", i), minute, 0)))
		}
		var queue []chan proxies.Result
		for i := range 8 {
			queue = append(queue, p[i%2].Begin(t.Context(), permit(2, fmt.Sprint("t", i), minute, minute)))
		}
		time.Sleep(100 * time.Millisecond)
		p[0].Unlock("h0")
		p[1].Unlock("h1")
		began := time.Now()
		for range queue {
			r, i := anyOf(t, queue)
			if late := r.At.Sub(began); late > 2500*time.Millisecond {
				t.Errorf("number %d got it after %v", i, late)
			}
			p[1-i%2].Unlock(r.Token)
			began = time.Now()
		}
		s.Empty(t)
	})
}
