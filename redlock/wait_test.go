package redlock

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"lockproxy/internal/subscription"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// inFakeTime runs test over a Redis in the process.
func inFakeTime(t *testing.T, test func(t *testing.T, s *server)) {
	synctest.Test(t, func(t *testing.T) { test(t, newMini(t)) })
}

const minute = time.Minute

// First come, first served, across proxies and modes; each comes by a proxy in turn. R9 R25 R29
func TestFirstComeFirstServed(t *testing.T) {
	everywhere(t, func(t *testing.T, s *server) {
		for n := 1; n <= 3; n++ {
			p := s.proxies(t, n)
			granted(t, p[0].begin(t.Context(), Acquire{Token: "holder"}))
			modes := "wwrrwrwwrrrw"
			var queue []chan result
			for i, m := range modes {
				queue = append(queue, p[i%n].begin(t.Context(), Acquire{Token: fmt.Sprint("t", i), Mode: Mode(string(m)), Wait: minute}))
			}
			if got := p[0].state().Waiters; got != len(modes) {
				t.Fatalf("%d of %d wait", got, len(modes))
			}
			last := int64(0)
			free := func() { p[n-1].unlock("holder") }
			for i := 0; i < len(modes); {
				// Who stands together reads together.
				end := i + 1
				for modes[i] == 'r' && end < len(modes) && modes[end] == 'r' {
					end++
				}
				free()
				top := last
				for ; i < end; i++ {
					r := granted(t, queue[i])
					if r.Token != fmt.Sprint("t", i) || r.Fence <= last || r.Count != 1 || r.TTL > 30*time.Second || r.TTL < 29*time.Second {
						t.Errorf("%d proxies, number %d got %+v, the fence before was %d", n, i, r, last)
					}
					top = max(top, r.Fence)
					token, before := r.Token, free
					if modes[i] == 'r' {
						free = func() { before(); p[i%n].unlock(token) }
					} else {
						free = func() { p[(i+1)%n].unlock(token) }
					}
				}
				last = top
				waiting(t, queue[i:]...)
				// Newcomers do not overtake, whether the lock is free or not.
				if r := p[0].lock(t.Context(), Acquire{Mode: Read}); i < len(modes) && (r.ok || r.err != nil) {
					t.Errorf("a newcomer got it: %+v", r)
				}
			}
			s.ask("DEL", lockKey)
		}
	})
}

// The lock goes on at once, by whichever proxy it is released. R25
func TestHandOverIsPrompt(t *testing.T) {
	inFakeTime(t, func(t *testing.T, s *server) {
		p := s.proxies(t, 3)
		granted(t, p[0].begin(t.Context(), Acquire{Token: "0"}))
		var queue []chan result
		for i := range 30 {
			queue = append(queue, p[i%3].begin(t.Context(), Acquire{Token: fmt.Sprint(i + 1), Wait: minute}))
		}
		time.Sleep(300 * time.Millisecond)
		for i, done := range queue {
			began := time.Now()
			if p[(i/2)%3].unlock(fmt.Sprint(i)) != 1 {
				t.Fatalf("%d held nothing", i)
			}
			if r := granted(t, done); r.at.Sub(began) > 2*time.Millisecond {
				t.Errorf("number %d got it after %v", i, r.at.Sub(began))
			}
			time.Sleep(7 * time.Millisecond)
		}
		p[0].unlock("30")
		s.empty(t)
	})
}

// A hot lock costs Redis little: one script to join the queue, one to hand over,
// and now and then a pulse. R12
func TestRequestsAreFew(t *testing.T) {
	inFakeTime(t, func(t *testing.T, s *server) {
		p := s.proxies(t, 1)[0]
		granted(t, p.begin(t.Context(), Acquire{Token: "0"}))
		var queue []chan result
		for i := range 50 {
			queue = append(queue, p.begin(t.Context(), Acquire{Token: fmt.Sprint(i + 1), Wait: minute}))
		}
		time.Sleep(time.Second)
		before := p.up.asked()
		time.Sleep(10 * time.Second)
		if n := p.up.asked() - before; n < 9 || n > 12 {
			t.Errorf("50 waiters asked %d times in 10 s", n)
		}
		before = p.up.asked()
		for i := range queue {
			p.unlock(fmt.Sprint(i))
			granted(t, queue[i])
		}
		if n := p.up.asked() - before; n > 55 {
			t.Errorf("50 hand-overs took %d requests", n)
		}
		p.up.set(func(u *upstream) {
			if u.subs != 1 {
				t.Errorf("%d subscriptions", u.subs)
			}
		})
		p.unlock("50")
		s.empty(t)
	})
}

// A crashed proxy holds the queue up for half a second, once, however many of
// its clients wait.
func TestCrashedProxy(t *testing.T) {
	inFakeTime(t, func(t *testing.T, s *server) {
		p := s.proxies(t, 3)
		granted(t, p[0].begin(t.Context(), Acquire{Token: "0"}))
		ctx, crash := context.WithCancel(t.Context())
		var crashed []chan result
		for range 4 {
			crashed = append(crashed, p[1].begin(ctx, Acquire{Wait: minute}))
		}
		after := p[2].begin(t.Context(), Acquire{Token: "after", Wait: minute})
		for range 4 {
			crashed = append(crashed, p[1].begin(ctx, Acquire{Wait: minute}))
		}
		last := p[0].begin(t.Context(), Acquire{Token: "last", Wait: minute})
		// It can reach nobody any more, so it cannot take anything back either.
		p[1].up.set(func(u *upstream) {
			u.mute = true
			u.faults = func(string) (error, error) { return errors.New("gone"), nil }
		})
		began := time.Now()
		p[0].unlock("0")
		if r := granted(t, after); r.at.Sub(began) < 490*time.Millisecond || r.at.Sub(began) > 520*time.Millisecond {
			t.Errorf("the next one got it after %v", r.at.Sub(began))
		}
		began = time.Now()
		p[2].unlock("after")
		if r := granted(t, last); r.at.Sub(began) > 5*time.Millisecond {
			t.Errorf("and the last one after %v more", r.at.Sub(began))
		}
		p[0].unlock("last")
		crash()
		for _, done := range crashed {
			if r := <-done; r.ok {
				t.Errorf("a crashed client got %+v", r)
			}
		}
		p[1].Close(ctx)
		s.empty(t)
	})
}

// Without messages a hand-over is late by a second at most, and nobody loses it. R25
func TestLostMessages(t *testing.T) {
	inFakeTime(t, func(t *testing.T, s *server) {
		for _, modes := range []string{"wwwwwwww", "rrrrrrrr", "wrrwrrrw"} {
			p := s.proxies(t, 2)
			for _, q := range p {
				q.up.set(func(u *upstream) { u.mute = true })
			}
			granted(t, p[0].begin(t.Context(), Acquire{Token: "holder"}))
			var queue []chan result
			for i, m := range modes {
				queue = append(queue, p[i%2].begin(t.Context(), Acquire{Token: fmt.Sprint(i), Mode: Mode(string(m)), Wait: minute}))
			}
			time.Sleep(100 * time.Millisecond)
			p[0].unlock("holder")
			began := time.Now()
			for range modes {
				r, i := anyOf(t, queue)
				// Readers may lose their places by it, and come a round later.
				if late := r.at.Sub(began); late > 2500*time.Millisecond {
					t.Errorf("%s: number %d got it after %v", modes, i, late)
				}
				p[1-i%2].unlock(r.Token)
				began = time.Now()
			}
			s.empty(t)
		}
	})
}

// anyOf waits for one of them to be granted the lock.
func anyOf(t *testing.T, queue []chan result) (result, int) {
	t.Helper()
	for range 30_000 {
		for i, done := range queue {
			if done != nil && len(done) > 0 {
				queue[i] = nil
				return granted(t, done), i
			}
		}
		time.Sleep(time.Millisecond)
	}
	t.Fatal("nobody got it in 30 s")
	return result{}, 0
}

// The reply to a release that handed the lock over gets lost: the waiter learns
// of it from the next pulse, also when it is not the first of its room.
func TestLostHandOver(t *testing.T) {
	inFakeTime(t, func(t *testing.T, s *server) {
		p := s.proxies(t, 2)
		granted(t, p[0].begin(t.Context(), Acquire{Token: "0"}))
		// The order here is not that of the queue: a asks first, and waits behind b.
		first := p[0].NewAcquire(Acquire{Name: "job", Mode: Write, Token: "a", Wait: minute})
		if _, ok, err := p[0].client().acquire(first); ok || err != nil {
			t.Fatal(ok, err)
		}
		b := p[0].begin(t.Context(), Acquire{Token: "b", Wait: minute})
		a := make(chan result, 1)
		go func() {
			g, ok, err := p[0].Wait(t.Context(), first)
			a <- result{Grant: g, ok: ok, err: err, at: time.Now()}
		}()
		time.Sleep(100 * time.Millisecond)
		release := notedRelease(p[0].Locker, &Release{Name: "job", Token: "0"})
		began := time.Now()
		if _, err := p[1].up.Do(t.Context(), release.slot, release.req, true); err != nil {
			t.Fatal(err)
		}
		if r := granted(t, a); r.at.Sub(began) > 1100*time.Millisecond {
			t.Errorf("told after %v", r.at.Sub(began))
		}
		p[0].unlock("a")
		granted(t, b)
		p[0].unlock("b")
		s.empty(t)
	})
}

// A lease that ends while others wait lets the next one in at that moment. R3
func TestLeaseEndsWhileOthersWait(t *testing.T) {
	inFakeTime(t, func(t *testing.T, s *server) {
		for _, holder := range []Mode{Write, Read} {
			for _, lease := range []time.Duration{50 * time.Millisecond, 700 * time.Millisecond, 5 * time.Second} {
				p := s.proxies(t, 2)
				began := time.Now()
				granted(t, p[0].begin(t.Context(), Acquire{Mode: holder, Lease: lease}))
				a := p[1].begin(t.Context(), Acquire{Token: "a", Wait: minute, Lease: lease})
				b := p[1].begin(t.Context(), Acquire{Token: "b", Wait: minute})
				if r := granted(t, a); r.at.Sub(began) < lease || r.at.Sub(began) > lease+5*time.Millisecond {
					t.Errorf("%s %v: got it after %v", holder, lease, r.at.Sub(began))
				}
				// The one that was granted crashes as well.
				if r := granted(t, b); r.at.Sub(began) < 2*lease || r.at.Sub(began) > 2*lease+10*time.Millisecond {
					t.Errorf("%s %v: the next one got it after %v", holder, lease, r.at.Sub(began))
				}
				p[0].unlock("b")
				s.empty(t)
			}
		}
	})
}

// A wait that is over ends in time, leaves nothing, and the token may ask again at once. R9
func TestWaitInVain(t *testing.T) {
	inFakeTime(t, func(t *testing.T, s *server) {
		p := s.proxies(t, 2)
		granted(t, p[0].begin(t.Context(), Acquire{Token: "0"}))
		for _, wait := range []time.Duration{time.Millisecond, 30 * time.Millisecond, 2500 * time.Millisecond} {
			if r := p[1].lock(t.Context(), Acquire{Token: "a", Wait: wait}); r.ok || r.err != nil || r.took < wait || r.took > wait+2*time.Millisecond {
				t.Errorf("WAIT %v: %+v", wait, r)
			}
			if st := p[1].state(); st.Waiters != 0 {
				t.Errorf("%d wait still", st.Waiters)
			}
		}
		if got := p[1].Stats(); got.Waits != 3 || got.TimedOut != 3 || got.Waiting != 0 {
			t.Errorf("%+v", got)
		}
		p[0].unlock("0")
		s.empty(t)
	})
}

// A client leaves at any moment: while it waits, or as the lock reaches it. Nothing of it
// stays, and the lock goes on.
func TestClientLeaves(t *testing.T) {
	inFakeTime(t, func(t *testing.T, s *server) {
		for after := range 60 { // steps around the release
			p := s.proxies(t, 2)
			granted(t, p[0].begin(t.Context(), Acquire{Token: "0"}))
			ctx, leave := context.WithCancelCause(t.Context())
			gone := p[after%2].begin(ctx, Acquire{Token: "gone", Wait: minute})
			next := p[1].begin(t.Context(), Acquire{Token: "next", Wait: minute})
			time.Sleep(50 * time.Millisecond)
			left := errors.New("client left")
			time.AfterFunc(time.Duration(after-30)*20*time.Microsecond, func() { leave(left) })
			time.Sleep(time.Duration(after%3) * 100 * time.Microsecond)
			p[after/2%2].unlock("0")
			if r := <-gone; r.ok {
				if p[0].unlock("gone") != 1 {
					t.Errorf("%d: told that it has the lock, but it has not", after)
				}
			} else if r.err != left {
				t.Errorf("%d: %+v", after, r)
			}
			if r := granted(t, next); r.took > 200*time.Millisecond {
				t.Errorf("%d: the next one got it after %v", after, r.took)
			}
			p[0].unlock("next")
			s.empty(t)
		}
	})
}

// The lock is handed to a client whose wait ends at that moment: it gets it or
// it does not, but never is a hold left behind.
func TestGrantMeetsTheEndOfTheWait(t *testing.T) {
	inFakeTime(t, func(t *testing.T, s *server) {
		p := s.proxies(t, 1)[0]
		for i := range 40 {
			granted(t, p.begin(t.Context(), Acquire{Token: "0"}))
			done := p.begin(t.Context(), Acquire{Token: "a", Wait: 100 * time.Millisecond})
			time.Sleep(98*time.Millisecond + time.Duration(i)*100*time.Microsecond)
			p.unlock("0")
			if r := <-done; r.err != nil {
				t.Error(r.err)
			} else if r.ok && p.unlock("a") != 1 {
				t.Error("told that it has the lock, but it has not")
			}
			if keys := s.keys(); len(keys) > 0 {
				t.Fatalf("%d: left behind: %v %v", i, keys, s.ask("HGETALL", keys[0]))
			}
		}
	})
}

// TRIES makes exactly that many attempts, the pauses between them jittered by half. R11
func TestTries(t *testing.T) {
	inFakeTime(t, func(t *testing.T, s *server) {
		p := s.proxies(t, 1)[0]
		granted(t, p.begin(t.Context(), Acquire{Token: "0"}))
		a := p.NewAcquire(Acquire{Name: "job", Mode: Write})
		seen := map[time.Duration]bool{}
		for range 20 {
			before, began := p.up.asked(), time.Now()
			if _, ok, err := p.Try(t.Context(), a, 4, 100*time.Millisecond); ok || err != nil {
				t.Fatal(ok, err)
			}
			took := time.Since(began)
			seen[took] = true
			if n := p.up.asked() - before; n != 4 || took < 200*time.Millisecond || took > 600*time.Millisecond {
				t.Errorf("%d attempts in %v", n, took)
			}
		}
		if len(seen) < 10 {
			t.Errorf("the pauses are no random ones: %v", seen)
		}
		go func() {
			time.Sleep(250 * time.Millisecond)
			p.unlock("0")
		}()
		if g, ok, err := p.Try(t.Context(), a, 1000, 100*time.Millisecond); !ok || err != nil {
			t.Errorf("%+v %v %v", g, ok, err)
		}
		p.unlock(a.Token)
		ctx, cancel := context.WithTimeout(t.Context(), 150*time.Millisecond)
		defer cancel()
		granted(t, p.begin(t.Context(), Acquire{Token: "0"}))
		if _, ok, err := p.Try(ctx, p.NewAcquire(Acquire{Name: "job", Mode: Write}), 1000, 100*time.Millisecond); ok || !errors.Is(err, context.DeadlineExceeded) {
			t.Error(ok, err)
		}
		p.unlock("0")
		s.empty(t)
	})
}

// While there is no subscription, because it fails, hangs or is lost, timers do.
func TestWithoutSubscription(t *testing.T) {
	inFakeTime(t, func(t *testing.T, s *server) {
		for name, fault := range map[string]func(u *upstream){
			"fails": func(u *upstream) { u.unsubbable = errors.New("no") },
			"hangs": func(u *upstream) { u.hang = make(chan struct{}) },
		} {
			p := s.proxies(t, 2)
			p[1].up.set(fault)
			granted(t, p[0].begin(t.Context(), Acquire{Token: "0"}))
			if r := p[1].lock(t.Context(), Acquire{Wait: 50 * time.Millisecond}); r.ok || r.err != nil || r.took > 60*time.Millisecond {
				t.Errorf("%s: %+v", name, r)
			}
			done := p[1].begin(t.Context(), Acquire{Token: "a", Wait: minute})
			time.Sleep(3300 * time.Millisecond)
			began := time.Now()
			p[0].unlock("0")
			if r := granted(t, done); r.at.Sub(began) > 110*time.Millisecond {
				t.Errorf("%s: got it after %v", name, r.at.Sub(began))
			}
			// It recovers.
			done = p[1].begin(t.Context(), Acquire{Token: "b", Wait: minute})
			p[1].up.set(func(u *upstream) {
				u.unsubbable = nil
				if u.hang != nil {
					close(u.hang)
					u.hang = nil
				}
			})
			time.Sleep(2 * time.Second)
			began = time.Now()
			p[0].unlock("a")
			if r := granted(t, done); r.at.Sub(began) > 2*time.Millisecond {
				t.Errorf("%s, then not: got it after %v", name, r.at.Sub(began))
			}
			p[0].unlock("b")
			s.empty(t)
		}

		p := s.proxies(t, 2)
		granted(t, p[0].begin(t.Context(), Acquire{Token: "0"}))
		done := p[1].begin(t.Context(), Acquire{Token: "a", Wait: minute})
		time.Sleep(50 * time.Millisecond)
		p[1].up.set(func(u *upstream) { u.mute = true })
		p[1].up.tell(subscription.Lost)
		time.Sleep(time.Second)
		began := time.Now()
		p[0].unlock("0")
		if r := granted(t, done); r.at.Sub(began) > 110*time.Millisecond {
			t.Errorf("while it is lost: got it after %v", r.at.Sub(began))
		}
		done = p[1].begin(t.Context(), Acquire{Token: "b", Wait: minute})
		time.Sleep(50 * time.Millisecond)
		p[1].up.tell(subscription.Lost)
		time.Sleep(50 * time.Millisecond)
		p[0].unlock("a")
		began = time.Now()
		p[1].up.tell(subscription.Live)
		if r := granted(t, done); r.at.Sub(began) > 2*time.Millisecond {
			t.Errorf("when it lives again: got it after %v", r.at.Sub(began))
		}
		p[0].unlock("b")
		s.empty(t)
	})
}

// Whatever fails, before a request ran or after, nothing half done stays. R10 R33
func TestUpstreamErrors(t *testing.T) {
	inFakeTime(t, func(t *testing.T, s *server) {
		trouble := errors.New("trouble")
		for _, after := range []bool{false, true} {
			for failing := range 6 { // which request fails, and the one behind it
				p := s.proxies(t, 2)
				granted(t, p[0].begin(t.Context(), Acquire{Token: "0", Lease: 1500 * time.Millisecond}))
				n := 0
				p[1].up.set(func(u *upstream) {
					u.faults = func(string) (error, error) {
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
				a := p[1].begin(t.Context(), Acquire{Token: "a", Wait: 5 * time.Second})
				b := p[1].begin(t.Context(), Acquire{Token: "b", Wait: 5 * time.Second})
				for _, done := range []chan result{a, b} {
					switch r := <-done; {
					case r.ok:
						p[0].unlock(r.Token)
					case r.err != trouble:
						t.Errorf("after %v, %d: %+v", after, failing, r)
					}
				}
				time.Sleep(10 * time.Second)
				s.empty(t)
			}
		}
	})
}

// A full queue says so, and the lock stays usable.
func TestQueueFull(t *testing.T) {
	inFakeTime(t, func(t *testing.T, s *server) {
		p := s.proxies(t, 1, Options{MaxQueue: 3})[0]
		granted(t, p.begin(t.Context(), Acquire{Token: "0"}))
		var queue []chan result
		for i := range 3 {
			queue = append(queue, p.begin(t.Context(), Acquire{Token: fmt.Sprint(i + 1), Wait: minute}))
		}
		r := p.lock(t.Context(), Acquire{Wait: minute})
		if r.err == nil || !strings.HasPrefix(r.err.Error(), "QUEUEFULL 3 ") || !Refused(r.err) {
			t.Errorf("%+v", r)
		}
		for i, done := range queue {
			p.unlock(fmt.Sprint(i))
			granted(t, done)
		}
		p.unlock("3")
		s.empty(t)
	})
}

// What was made is given back when the proxy stops, as far as it can be.
func TestClose(t *testing.T) {
	inFakeTime(t, func(t *testing.T, s *server) {
		p := s.proxies(t, 1)[0]
		granted(t, p.begin(t.Context(), Acquire{Token: "0"}))
		ctx, drain := context.WithCancel(t.Context())
		done := p.begin(ctx, Acquire{Wait: minute})
		fails := 3
		p.up.set(func(u *upstream) {
			u.faults = func(script string) (error, error) {
				if script == "cancel" && fails > 0 {
					fails--
					return errors.New("not now"), nil
				}
				return nil, nil
			}
		})
		drain()
		if r := <-done; !errors.Is(r.err, context.Canceled) {
			t.Errorf("%+v", r)
		}
		p.Close(t.Context())
		v := s.ask("HGETALL", lockKey)
		for i := 0; i < len(v.Elems); i += 2 {
			if strings.HasPrefix(v.Elems[i].Text(), "q:") {
				t.Errorf("%s = %s", v.Elems[i].Text(), v.Elems[i+1].Text())
			}
		}
		// A Redis that cannot be reached does not keep it from stopping.
		q := s.proxies(t, 1)[0]
		q.up.set(func(u *upstream) { u.faults = func(string) (error, error) { return errors.New("gone"), nil } })
		q.Undo(q.NewAcquire(Acquire{Name: "job", Mode: Write}))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		q.Close(ctx)
		if took := time.Since(began); took > 1100*time.Millisecond {
			t.Errorf("stopping took %v", took)
		}
	})
}
