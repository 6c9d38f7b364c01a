package locks_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"lockproxy/internal/subscription"
	"lockproxy/redlock"
	"lockproxy/redlock/internal/proxies"
	"lockproxy/redlock/internal/rig"
	"lockproxy/redlock/locks"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const minute = time.Minute

// First come, first served, across proxies and modes; each comes by a proxy in turn. On a real Redis there is
// one, to which no lock is offered: a machine that stands still for half a second turns the order of others.
// R9 R25 R29
func TestFirstComeFirstServed(t *testing.T) {
	rig.Everywhere(t, func(t *testing.T, s *rig.Server) {
		for n := 1; n == 1 || n <= 3 && s.Mini != nil; n++ {
			p := proxies.Start(t, s, n)
			proxies.Granted(t, p[0].Begin(t.Context(), redlock.Acquire{Token: "holder"}))
			modes := "wwrrwrwwrrrw"
			var queue []chan proxies.Result
			for i, m := range modes {
				queue = append(queue, p[i%n].Begin(t.Context(), redlock.Acquire{
					Token: fmt.Sprint("t", i), Mode: redlock.Mode(string(m)), Wait: minute,
				}))
			}
			if got := p[0].State().Waiters; got != len(modes) {
				t.Fatalf("%d of %d wait", got, len(modes))
			}
			last := int64(0)
			free := func() { p[n-1].Unlock("holder") }
			for i := 0; i < len(modes); {
				// Who stands together reads together.
				end := i + 1
				for modes[i] == 'r' && end < len(modes) && modes[end] == 'r' {
					end++
				}
				free()
				top := last
				for ; i < end; i++ {
					r := proxies.Granted(t, queue[i])
					if r.Token != fmt.Sprint("t", i) || r.Fence <= last || r.Count != 1 ||
						r.TTL > 30*time.Second || r.TTL < 20*time.Second {
						t.Errorf("%d proxies, number %d got %+v, the fence before was %d", n, i, r, last)
					}
					top = max(top, r.Fence)
					token, before := r.Token, free
					if modes[i] == 'r' {
						free = func() { before(); p[i%n].Unlock(token) }
					} else {
						free = func() { p[(i+1)%n].Unlock(token) }
					}
				}
				last = top
				proxies.Waiting(t, queue[i:]...)
				// Newcomers do not overtake, whether the lock is free or not.
				if r := p[0].Lock(t.Context(), redlock.Acquire{Mode: redlock.Read}); i < len(modes) &&
					(r.OK || r.Err != nil) {
					t.Errorf("a newcomer got it: %+v", r)
				}
			}
			s.Ask("DEL", rig.LockKey)
		}
	})
}

// The lock goes on at once, by whichever proxy it is released. R25
func TestHandOverIsPrompt(t *testing.T) {
	rig.InFakeTime(t, func(t *testing.T, s *rig.Server) {
		p := proxies.Start(t, s, 3)
		proxies.Granted(t, p[0].Begin(t.Context(), redlock.Acquire{Token: "0"}))
		var queue []chan proxies.Result
		for i := range 30 {
			queue = append(queue, p[i%3].Begin(t.Context(), redlock.Acquire{
				Token: fmt.Sprint(i + 1), Wait: minute,
			}))
		}
		time.Sleep(300 * time.Millisecond)
		for i, done := range queue {
			began := time.Now()
			if p[(i/2)%3].Unlock(fmt.Sprint(i)) != 1 {
				t.Fatalf("%d held nothing", i)
			}
			if r := proxies.Granted(t, done); r.At.Sub(began) > 2*time.Millisecond {
				t.Errorf("number %d got it after %v", i, r.At.Sub(began))
			}
			time.Sleep(7 * time.Millisecond)
		}
		p[0].Unlock("30")
		s.Empty(t)
	})
}

// A hot lock costs Redis little: one script to join the queue, one to hand over,
// and now and then a pulse. R12
func TestRequestsAreFew(t *testing.T) {
	rig.InFakeTime(t, func(t *testing.T, s *rig.Server) {
		p := proxies.Start(t, s, 1)[0]
		proxies.Granted(t, p.Begin(t.Context(), redlock.Acquire{Token: "0"}))
		var queue []chan proxies.Result
		for i := range 50 {
			queue = append(queue, p.Begin(t.Context(), redlock.Acquire{
				Token: fmt.Sprint(i + 1), Wait: minute,
			}))
		}
		time.Sleep(time.Second)
		before := p.Up.Asked()
		time.Sleep(10 * time.Second)
		if n := p.Up.Asked() - before; n < 9 || n > 12 {
			t.Errorf("50 waiters asked %d times in 10 s", n)
		}
		before = p.Up.Asked()
		for i := range queue {
			p.Unlock(fmt.Sprint(i))
			proxies.Granted(t, queue[i])
		}
		if n := p.Up.Asked() - before; n > 55 {
			t.Errorf("50 hand-overs took %d requests", n)
		}
		p.Up.Set(func(u *rig.Upstream) {
			if u.Subs != 1 {
				t.Errorf("%d subscriptions", u.Subs)
			}
		})
		p.Unlock("50")
		s.Empty(t)
	})
}

// A crashed proxy holds the queue up for half a second, once, however many of
// its clients wait.
func TestCrashedProxy(t *testing.T) {
	rig.InFakeTime(t, func(t *testing.T, s *rig.Server) {
		p := proxies.Start(t, s, 3)
		proxies.Granted(t, p[0].Begin(t.Context(), redlock.Acquire{Token: "0"}))
		ctx, crash := context.WithCancel(t.Context())
		var crashed []chan proxies.Result
		for range 4 {
			crashed = append(crashed, p[1].Begin(ctx, redlock.Acquire{Wait: minute}))
		}
		after := p[2].Begin(t.Context(), redlock.Acquire{Token: "after", Wait: minute})
		for range 4 {
			crashed = append(crashed, p[1].Begin(ctx, redlock.Acquire{Wait: minute}))
		}
		last := p[0].Begin(t.Context(), redlock.Acquire{Token: "last", Wait: minute})
		// It can reach nobody any more, so it cannot take anything back either.
		p[1].Up.Set(func(u *rig.Upstream) {
			u.Mute = true
			u.Faults = func(string) (error, error) { return errors.New("gone"), nil }
		})
		began := time.Now()
		p[0].Unlock("0")
		if r := proxies.Granted(t, after); r.At.Sub(began) < 490*time.Millisecond ||
			r.At.Sub(began) > 520*time.Millisecond {
			t.Errorf("the next one got it after %v", r.At.Sub(began))
		}
		began = time.Now()
		p[2].Unlock("after")
		if r := proxies.Granted(t, last); r.At.Sub(began) > 5*time.Millisecond {
			t.Errorf("and the last one after %v more", r.At.Sub(began))
		}
		p[0].Unlock("last")
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

// A proxy stands still while the turns of some of its clients pass. When it goes on they are before all who
// came later, and in the order in which they came. R25
func TestFrozenProxyKeepsOrder(t *testing.T) {
	rig.InFakeTime(t, func(t *testing.T, s *rig.Server) {
		const waiters = 60
		for round := range 10 {
			p := proxies.Start(t, s, 2)
			proxies.Granted(t, p[1].Begin(t.Context(), redlock.Acquire{Token: "holder"}))
			var queue []chan proxies.Result
			for i := range waiters { // most of the first wait at the proxy that freezes
				queue = append(queue, p[min(i%(2+i/10), 1)].Begin(t.Context(),
					redlock.Acquire{Token: fmt.Sprint(i), Wait: minute}))
			}
			var order []int
			serve := func(n int) {
				for range n {
					r, i := anyOf(t, queue)
					order = append(order, i)
					time.Sleep(time.Duration(round) * time.Millisecond)
					p[1].Unlock(r.Token)
				}
			}
			thaw := p[0].Up.Freeze()
			p[1].Unlock("holder")
			serve(12)
			thaw()
			synctest.Wait() // what was frozen has arrived
			serve(waiters - 12)
			// The next turn may have been another's already.
			if after := order[13:]; !slices.IsSorted(after) || after[0] != 0 && order[12] != 0 {
				t.Errorf("served in the order %v", order)
			}
			s.Empty(t)
		}
	})
}

// Without messages a hand-over is late by a second at most, and nobody loses it. R25
func TestLostMessages(t *testing.T) {
	rig.InFakeTime(t, func(t *testing.T, s *rig.Server) {
		for _, modes := range []string{"wwwwwwww", "rrrrrrrr", "wrrwrrrw"} {
			p := proxies.Start(t, s, 2)
			for _, q := range p {
				q.Up.Set(func(u *rig.Upstream) { u.Mute = true })
			}
			proxies.Granted(t, p[0].Begin(t.Context(), redlock.Acquire{Token: "holder"}))
			var queue []chan proxies.Result
			for i, m := range modes {
				queue = append(queue, p[i%2].Begin(t.Context(), redlock.Acquire{
					Token: fmt.Sprint(i), Mode: redlock.Mode(string(m)), Wait: minute,
				}))
			}
			time.Sleep(100 * time.Millisecond)
			p[0].Unlock("holder")
			began := time.Now()
			for range modes {
				r, i := anyOf(t, queue)
				// Readers may lose their places by it, and come a round later.
				if late := r.At.Sub(began); late > 2500*time.Millisecond {
					t.Errorf("%s: number %d got it after %v", modes, i, late)
				}
				p[1-i%2].Unlock(r.Token)
				began = time.Now()
			}
			s.Empty(t)
		}
	})
}

// anyOf waits for one of them to be granted the lock.
func anyOf(t *testing.T, queue []chan proxies.Result) (proxies.Result, int) {
	t.Helper()
	for range 30_000 {
		for i, done := range queue {
			if done != nil && len(done) > 0 {
				queue[i] = nil
				return proxies.Granted(t, done), i
			}
		}
		time.Sleep(time.Millisecond)
	}
	t.Fatal("nobody got it in 30 s")
	return proxies.Result{}, 0
}

// The reply to a release that handed the lock over gets lost: the waiter learns
// of it from the next pulse, also when it is not the first of its room.
func TestLostHandOver(t *testing.T) {
	rig.InFakeTime(t, func(t *testing.T, s *rig.Server) {
		p := proxies.Start(t, s, 2)
		proxies.Granted(t, p[0].Begin(t.Context(), redlock.Acquire{Token: "0"}))
		// The order here is not that of the queue: a asks first, and waits behind b.
		first := p[0].NewAcquire(redlock.Acquire{Name: "job", Mode: redlock.Write, Token: "a", Wait: minute})
		if _, ok, err := p[0].Client().Acquire(first); ok || err != nil {
			t.Fatal(ok, err)
		}
		b := p[0].Begin(t.Context(), redlock.Acquire{Token: "b", Wait: minute})
		a := make(chan proxies.Result, 1)
		go func() {
			g, ok, err := p[0].Wait(t.Context(), first)
			a <- proxies.Result{Grant: g, OK: ok, Err: err, At: time.Now()}
		}()
		time.Sleep(100 * time.Millisecond)
		release := rig.NotedRelease(p[0].Locker, &redlock.Release{Name: "job", Token: "0"})
		began := time.Now()
		if _, err := p[1].Up.Do(t.Context(), release.Slot, release.Req, true); err != nil {
			t.Fatal(err)
		}
		if r := proxies.Granted(t, a); r.At.Sub(began) > 1100*time.Millisecond {
			t.Errorf("told after %v", r.At.Sub(began))
		}
		p[0].Unlock("a")
		proxies.Granted(t, b)
		p[0].Unlock("b")
		s.Empty(t)
	})
}

// A lease that ends while others wait lets the next one in at that moment. R3
func TestLeaseEndsWhileOthersWait(t *testing.T) {
	rig.InFakeTime(t, func(t *testing.T, s *rig.Server) {
		for _, holder := range []redlock.Mode{redlock.Write, redlock.Read} {
			for _, lease := range []time.Duration{50 * time.Millisecond, 700 * time.Millisecond,
				5 * time.Second} {
				p := proxies.Start(t, s, 2)
				began := time.Now()
				proxies.Granted(t, p[0].Begin(t.Context(), redlock.Acquire{Mode: holder, Lease: lease}))
				a := p[1].Begin(t.Context(), redlock.Acquire{Token: "a", Wait: minute, Lease: lease})
				b := p[1].Begin(t.Context(), redlock.Acquire{Token: "b", Wait: minute})
				if r := proxies.Granted(t, a); r.At.Sub(began) < lease ||
					r.At.Sub(began) > lease+5*time.Millisecond {
					t.Errorf("%s %v: got it after %v", holder, lease, r.At.Sub(began))
				}
				// The one that was granted crashes as well.
				if r := proxies.Granted(t, b); r.At.Sub(began) < 2*lease ||
					r.At.Sub(began) > 2*lease+10*time.Millisecond {
					t.Errorf("%s %v: the next one got it after %v", holder, lease, r.At.Sub(began))
				}
				p[0].Unlock("b")
				s.Empty(t)
			}
		}
	})
}

// A wait that is over ends in time, leaves nothing, and the token may ask again at once. R9
func TestWaitInVain(t *testing.T) {
	rig.InFakeTime(t, func(t *testing.T, s *rig.Server) {
		p := proxies.Start(t, s, 2)
		proxies.Granted(t, p[0].Begin(t.Context(), redlock.Acquire{Token: "0"}))
		for _, wait := range []time.Duration{time.Millisecond, 30 * time.Millisecond,
			2500 * time.Millisecond} {
			if r := p[1].Lock(t.Context(), redlock.Acquire{Token: "a", Wait: wait}); r.OK || r.Err != nil ||
				r.Took < wait || r.Took > wait+2*time.Millisecond {
				t.Errorf("WAIT %v: %+v", wait, r)
			}
			if st := p[1].State(); st.Waiters != 0 {
				t.Errorf("%d wait still", st.Waiters)
			}
		}
		if got := p[1].Stats(); got[locks.Waits] != 3 || got[locks.TimedOut] != 3 || got[locks.Waiters] != 0 {
			t.Errorf("%+v", got)
		}
		p[0].Unlock("0")
		s.Empty(t)
	})
}

// A client leaves at any moment: while it waits, or as the lock reaches it. Nothing of it
// stays, and the lock goes on.
func TestClientLeaves(t *testing.T) {
	rig.InFakeTime(t, func(t *testing.T, s *rig.Server) {
		for after := range 60 { // steps around the release
			p := proxies.Start(t, s, 2)
			proxies.Granted(t, p[0].Begin(t.Context(), redlock.Acquire{Token: "0"}))
			ctx, leave := context.WithCancelCause(t.Context())
			gone := p[after%2].Begin(ctx, redlock.Acquire{Token: "gone", Wait: minute})
			next := p[1].Begin(t.Context(), redlock.Acquire{Token: "next", Wait: minute})
			time.Sleep(50 * time.Millisecond)
			left := errors.New("client left")
			time.AfterFunc(time.Duration(after-30)*20*time.Microsecond, func() { leave(left) })
			time.Sleep(time.Duration(after%3) * 100 * time.Microsecond)
			p[after/2%2].Unlock("0")
			if r := <-gone; r.OK {
				if p[0].Unlock("gone") != 1 {
					t.Errorf("%d: told that it has the lock, but it has not", after)
				}
			} else if r.Err != left {
				t.Errorf("%d: %+v", after, r)
			}
			if r := proxies.Granted(t, next); r.Took > 200*time.Millisecond {
				t.Errorf("%d: the next one got it after %v", after, r.Took)
			}
			p[0].Unlock("next")
			s.Empty(t)
		}
	})
}

// The lock is handed to a client whose wait ends at that moment: it gets it or
// it does not, but never is a hold left behind.
func TestGrantMeetsTheEndOfTheWait(t *testing.T) {
	rig.InFakeTime(t, func(t *testing.T, s *rig.Server) {
		p := proxies.Start(t, s, 1)[0]
		for i := range 40 {
			proxies.Granted(t, p.Begin(t.Context(), redlock.Acquire{Token: "0"}))
			done := p.Begin(t.Context(), redlock.Acquire{Token: "a", Wait: 100 * time.Millisecond})
			time.Sleep(98*time.Millisecond + time.Duration(i)*100*time.Microsecond)
			p.Unlock("0")
			if r := <-done; r.Err != nil {
				t.Error(r.Err)
			} else if r.OK && p.Unlock("a") != 1 {
				t.Error("told that it has the lock, but it has not")
			}
			if keys := s.Keys(); len(keys) > 0 {
				t.Fatalf("%d: left behind: %v %v", i, keys, s.Ask("HGETALL", keys[0]))
			}
		}
	})
}

// TRIES makes exactly that many attempts, the pauses between them jittered by half. R11
func TestTries(t *testing.T) {
	rig.InFakeTime(t, func(t *testing.T, s *rig.Server) {
		p := proxies.Start(t, s, 1)[0]
		proxies.Granted(t, p.Begin(t.Context(), redlock.Acquire{Token: "0"}))
		a := p.NewAcquire(redlock.Acquire{Name: "job", Mode: redlock.Write})
		seen := map[time.Duration]bool{}
		for range 20 {
			before, began := p.Up.Asked(), time.Now()
			if _, ok, err := p.Try(t.Context(), a, 4, 100*time.Millisecond); ok || err != nil {
				t.Fatal(ok, err)
			}
			took := time.Since(began)
			seen[took] = true
			if n := p.Up.Asked() - before; n != 4 || took < 200*time.Millisecond ||
				took > 600*time.Millisecond {
				t.Errorf("%d attempts in %v", n, took)
			}
		}
		if len(seen) < 10 {
			t.Errorf("the pauses are no random ones: %v", seen)
		}
		go func() {
			time.Sleep(250 * time.Millisecond)
			p.Unlock("0")
		}()
		if g, ok, err := p.Try(t.Context(), a, 1000, 100*time.Millisecond); !ok || err != nil {
			t.Errorf("%+v %v %v", g, ok, err)
		}
		p.Unlock(a.Token)
		ctx, cancel := context.WithTimeout(t.Context(), 150*time.Millisecond)
		defer cancel()
		proxies.Granted(t, p.Begin(t.Context(), redlock.Acquire{Token: "0"}))
		a = p.NewAcquire(redlock.Acquire{Name: "job", Mode: redlock.Write})
		_, ok, err := p.Try(ctx, a, 1000, 100*time.Millisecond)
		if ok || !errors.Is(err, context.DeadlineExceeded) {
			t.Error(ok, err)
		}
		p.Unlock("0")
		s.Empty(t)
	})
}

// While no subscription stands, because it was not made yet or is lost, timers do.
func TestWithoutSubscription(t *testing.T) {
	rig.InFakeTime(t, func(t *testing.T, s *rig.Server) {
		p := proxies.Start(t, s, 2)
		p[1].Up.Set(func(u *rig.Upstream) { u.Mute = true })
		proxies.Granted(t, p[0].Begin(t.Context(), redlock.Acquire{Token: "0"}))
		if r := p[1].Lock(t.Context(), redlock.Acquire{Wait: 50 * time.Millisecond}); r.OK ||
			r.Err != nil || r.Took > 60*time.Millisecond {
			t.Errorf("%+v", r)
		}
		done := p[1].Begin(t.Context(), redlock.Acquire{Token: "a", Wait: minute})
		time.Sleep(3300 * time.Millisecond)
		began := time.Now()
		p[0].Unlock("0")
		if r := proxies.Granted(t, done); r.At.Sub(began) > 110*time.Millisecond {
			t.Errorf("got it after %v", r.At.Sub(began))
		}
		// It recovers.
		done = p[1].Begin(t.Context(), redlock.Acquire{Token: "b", Wait: minute})
		p[1].Up.Set(func(u *rig.Upstream) { u.Mute = false })
		p[1].Up.Tell(subscription.Live)
		time.Sleep(2 * time.Second)
		began = time.Now()
		p[0].Unlock("a")
		if r := proxies.Granted(t, done); r.At.Sub(began) > 2*time.Millisecond {
			t.Errorf("once it stands: got it after %v", r.At.Sub(began))
		}
		p[0].Unlock("b")
		s.Empty(t)

		p = proxies.Start(t, s, 2)
		proxies.Granted(t, p[0].Begin(t.Context(), redlock.Acquire{Token: "0"}))
		done = p[1].Begin(t.Context(), redlock.Acquire{Token: "a", Wait: minute})
		time.Sleep(50 * time.Millisecond)
		p[1].Up.Set(func(u *rig.Upstream) { u.Mute = true })
		p[1].Up.Tell(subscription.Lost)
		time.Sleep(time.Second)
		began = time.Now()
		p[0].Unlock("0")
		if r := proxies.Granted(t, done); r.At.Sub(began) > 110*time.Millisecond {
			t.Errorf("while it is lost: got it after %v", r.At.Sub(began))
		}
		done = p[1].Begin(t.Context(), redlock.Acquire{Token: "b", Wait: minute})
		time.Sleep(50 * time.Millisecond)
		p[1].Up.Tell(subscription.Lost)
		time.Sleep(50 * time.Millisecond)
		p[0].Unlock("a")
		began = time.Now()
		p[1].Up.Tell(subscription.Live)
		if r := proxies.Granted(t, done); r.At.Sub(began) > 2*time.Millisecond {
			t.Errorf("when it lives again: got it after %v", r.At.Sub(began))
		}
		p[0].Unlock("b")
		s.Empty(t)
	})
}

// Whatever fails, before a request ran or after, nothing half done stays. R10 R33
func TestUpstreamErrors(t *testing.T) {
	rig.InFakeTime(t, func(t *testing.T, s *rig.Server) {
		trouble := errors.New("trouble")
		for _, after := range []bool{false, true} {
			for failing := range 6 { // which request fails, and the one behind it
				p := proxies.Start(t, s, 2)
				proxies.Granted(t, p[0].Begin(t.Context(), redlock.Acquire{
					Token: "0", Lease: 1500 * time.Millisecond,
				}))
				n := 0
				p[1].Up.Set(func(u *rig.Upstream) {
					u.Faults = func(string) (error, error) {
						n++
						switch {
						case n-1 != failing && n-2 != failing:
							return nil, nil
						case after:
							return nil, trouble
						}
						return trouble, nil
					}
				})
				a := p[1].Begin(t.Context(), redlock.Acquire{Token: "a", Wait: 5 * time.Second})
				b := p[1].Begin(t.Context(), redlock.Acquire{Token: "b", Wait: 5 * time.Second})
				for _, done := range []chan proxies.Result{a, b} {
					switch r := <-done; {
					case r.OK:
						p[0].Unlock(r.Token)
					case !errors.Is(r.Err, trouble):
						t.Errorf("after %v, %d: %+v", after, failing, r)
					}
				}
				time.Sleep(10 * time.Second)
				s.Empty(t)
			}
		}
	})
}

// A full queue says so, and the lock stays usable.
func TestQueueFull(t *testing.T) {
	rig.InFakeTime(t, func(t *testing.T, s *rig.Server) {
		p := proxies.Start(t, s, 1, locks.Options{MaxQueue: 3})[0]
		proxies.Granted(t, p.Begin(t.Context(), redlock.Acquire{Token: "0"}))
		var queue []chan proxies.Result
		for i := range 3 {
			queue = append(queue, p.Begin(t.Context(), redlock.Acquire{
				Token: fmt.Sprint(i + 1), Wait: minute,
			}))
		}
		r := p.Lock(t.Context(), redlock.Acquire{Wait: minute})
		if r.Err == nil || !strings.HasPrefix(r.Err.Error(), "QUEUEFULL 3 ") || !redlock.Refused(r.Err) {
			t.Errorf("%+v", r)
		}
		for i, done := range queue {
			p.Unlock(fmt.Sprint(i))
			proxies.Granted(t, done)
		}
		p.Unlock("3")
		s.Empty(t)
	})
}

// Waiters of a proxy that has gone, and readers whose leases are over, make room for others. R25
func TestFullOfThoseWhoHaveGone(t *testing.T) {
	rig.Everywhere(t, func(t *testing.T, s *rig.Server) {
		p := proxies.Start(t, s, 2, locks.Options{MaxQueue: 3, MaxReaders: 3})
		holder := proxies.Granted(t, p[0].Begin(t.Context(), redlock.Acquire{Token: "holder"}))
		var gone []chan proxies.Result
		for range 3 {
			gone = append(gone, p[1].Begin(t.Context(), redlock.Acquire{Wait: minute}))
		}
		thaw := sync.OnceFunc(p[1].Up.Freeze())
		defer thaw()
		var next chan proxies.Result
		for try := 0; next == nil || len(next) > 0; try++ {
			if try == 20 { // what proxy 1 had sent before may say that it is alive, once
				t.Fatalf("they make no room: %+v", <-next)
			}
			// As if proxy 1 were silent for long, and nobody had looked for who is gone in the last second.
			s.Ask("HDEL", rig.LockKey, "d")
			for _, field := range s.Ask("HKEYS", rig.LockKey).Elems {
				if strings.HasPrefix(field.Text(), "p:") {
					s.Ask("HSET", rig.LockKey, field.Text(), "1")
				}
			}
			next = p[0].Begin(t.Context(), redlock.Acquire{Token: "next", Wait: minute})
			time.Sleep(20 * time.Millisecond)
		}
		p[0].Unlock(holder.Token)
		proxies.Granted(t, next)
		thaw()
		p[0].Unlock("next")
		for range gone { // who asks first
			r, _ := anyOf(t, gone)
			p[0].Unlock(r.Token)
		}
		s.Empty(t)

		for range 3 {
			p[0].Lock(t.Context(), redlock.Acquire{Mode: redlock.Read, Lease: 50 * time.Millisecond})
		}
		time.Sleep(60 * time.Millisecond)
		proxies.Granted(t, p[0].Begin(t.Context(), redlock.Acquire{
			Token: "long", Mode: redlock.Read, Lease: minute,
		}))
	})
}

// What was made is given back when the proxy stops, as far as it can be.
func TestClose(t *testing.T) {
	rig.InFakeTime(t, func(t *testing.T, s *rig.Server) {
		p := proxies.Start(t, s, 1)[0]
		proxies.Granted(t, p.Begin(t.Context(), redlock.Acquire{Token: "0"}))
		ctx, drain := context.WithCancel(t.Context())
		done := p.Begin(ctx, redlock.Acquire{Wait: minute})
		fails := 3
		p.Up.Set(func(u *rig.Upstream) {
			u.Faults = func(script string) (error, error) {
				if script == "cancel" && fails > 0 {
					fails--
					return errors.New("not now"), nil
				}
				return nil, nil
			}
		})
		drain()
		if r := <-done; !errors.Is(r.Err, context.Canceled) {
			t.Errorf("%+v", r)
		}
		p.Close(t.Context())
		v := s.Ask("HGETALL", rig.LockKey)
		for i := 0; i < len(v.Elems); i += 2 {
			if strings.HasPrefix(v.Elems[i].Text(), "q:") {
				t.Errorf("%s = %s", v.Elems[i].Text(), v.Elems[i+1].Text())
			}
		}
		// A Redis that cannot be reached does not keep it from stopping.
		q := proxies.Start(t, s, 1)[0]
		q.Up.Set(func(u *rig.Upstream) {
			u.Faults = func(string) (error, error) { return errors.New("gone"), nil }
		})
		q.Undo(q.NewAcquire(redlock.Acquire{Name: "job", Mode: redlock.Write}))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		q.Close(ctx)
		if took := time.Since(began); took > 1100*time.Millisecond {
			t.Errorf("stopping took %v", took)
		}
	})
}
