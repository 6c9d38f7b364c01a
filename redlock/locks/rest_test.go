package locks_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"lockproxy/redlock"
	"lockproxy/redlock/internal/proxies"
	"lockproxy/redlock/internal/rig"
	"lockproxy/redlock/keepalive"
)

// Hosts whose clocks differ by up to 20 s all want to do the job of each minute, through two proxies. It is
// done once a minute, as long as it rests for longer than the clocks differ; without that it is not. R23
func TestOneRunAnInterval(t *testing.T) {
	const hosts, intervals, differ = 6, 20, 20 * time.Second
	run := func(atLeast time.Duration) (times []int64) {
		rig.InFakeTime(t, func(t *testing.T, s *rig.Server) {
			p := proxies.Start(t, s, 2)
			began, runs := time.Now(), make([]atomic.Int64, intervals)
			var all sync.WaitGroup
			for host := range hosts {
				late := rand.N(differ)
				all.Go(func() {
					for n := range intervals {
						time.Sleep(time.Until(began.Add(time.Duration(n)*time.Minute + late)))
						token := fmt.Sprint(host, " ", n)
						if !p[host%2].Lock(t.Context(), redlock.Acquire{Token: token, AtLeast: atLeast}).OK {
							continue
						}
						runs[n].Add(1)
						time.Sleep(rand.N(100 * time.Millisecond)) // the job
						if p[host%2].Unlock(token) != 1 {
							t.Error("the hold was lost")
						}
					}
				})
			}
			all.Wait()
			for n := range runs {
				times = append(times, runs[n].Load())
			}
			time.Sleep(time.Minute)
			s.Empty(t)
		})
		return times
	}
	often := false
	for range 5 {
		for n, times := range run(differ + time.Second) {
			if times != 1 {
				t.Errorf("the job of minute %d was done %d times", n, times)
			}
		}
		for _, times := range run(0) {
			often = often || times > 1
		}
	}
	if !often {
		t.Error("without ATLEAST it was done once a minute, too: this proves nothing")
	}
}

// Who waits behind a rest gets the lock at its end, by itself, whatever lease the former holder had. R25
func TestWaitBehindARest(t *testing.T) {
	rig.InFakeTime(t, func(t *testing.T, s *rig.Server) {
		p := proxies.Start(t, s, 2)
		for _, mode := range []redlock.Mode{redlock.Write, redlock.Read} {
			g := proxies.Granted(t, p[0].Begin(t.Context(), redlock.Acquire{
				Token: "a", Mode: mode, Lease: time.Hour, AtLeast: 2345 * time.Millisecond,
			}))
			first := p[1].Begin(t.Context(), redlock.Acquire{Token: "b", Lease: time.Minute, Wait: minute})
			second := p[0].Begin(t.Context(), redlock.Acquire{Token: "c", Lease: time.Minute, Wait: minute})
			time.Sleep(100 * time.Millisecond)
			if p[0].Unlock("a") != 1 || p[0].Unlock("a") != -1 {
				t.Error("UNLOCK does not answer 1, and then Null")
			}
			state := p[1].State()
			if state.Name() != "resting" || len(state.Holders) > 0 || state.Fence != 0 ||
				state.Waiters != 2 || state.Rest > 2245*time.Millisecond ||
				state.Rest < 2200*time.Millisecond {
				t.Errorf("while it rests: %+v", state)
			}
			proxies.Waiting(t, first, second)
			b := proxies.Granted(t, first)
			if took := b.At.Sub(g.At); took < 2345*time.Millisecond || took > 2360*time.Millisecond {
				t.Errorf("%v: the next came %v after the grant", mode, took)
			}
			if b.Fence <= g.Fence {
				t.Errorf("the fence %d is not above %d", b.Fence, g.Fence)
			}
			proxies.Waiting(t, second)
			p[1].Unlock("b")
			proxies.Granted(t, second)
			p[0].Unlock("c")
			s.Empty(t)
		}
	})
}

// Permits that rest are used, each until its own end. Then the next waiter gets it, by itself, also if that
// is sooner than it would have asked again. So does a writer behind a reader that rests. R25 R28
func TestWaitBehindRestsThatEndSoon(t *testing.T) {
	rig.InFakeTime(t, func(t *testing.T, s *rig.Server) {
		p := proxies.Start(t, s, 2)
		late := func(at, since time.Time, rest time.Duration) {
			t.Helper()
			if took := at.Sub(since); took < rest || took > rest+15*time.Millisecond {
				t.Errorf("it came %v after the grant, and the rest was %v", took, rest)
			}
		}
		rests := []time.Duration{345 * time.Millisecond, 678 * time.Millisecond}
		var grants []proxies.Result
		for i, rest := range rests {
			a := permit(2, fmt.Sprint("h", i), time.Hour, 0)
			a.AtLeast = rest
			grants = append(grants, proxies.Granted(t, p[i].Begin(t.Context(), a)))
		}
		var queue []chan proxies.Result
		for i := range 3 {
			queue = append(queue, p[i%2].Begin(t.Context(), permit(2, fmt.Sprint("t", i), minute, minute)))
		}
		time.Sleep(100 * time.Millisecond)
		for i := range rests {
			if p[1-i].Unlock(fmt.Sprint("h", i)) != 1 {
				t.Error("UNLOCK does not answer 1")
			}
		}
		state := p[0].State()
		if left := 678*time.Millisecond - time.Since(grants[1].At); state.Name() != "permits" ||
			len(state.Holders) > 0 || state.Resting != 2 || state.Used() != 2 || state.Permits != 2 ||
			state.Fence != 0 || state.Waiters != 3 || state.Rest < left-3*time.Millisecond ||
			state.Rest > left+3*time.Millisecond {
			t.Errorf("while both rest: %+v, want a rest of %v", state, left)
		}
		for i, rest := range rests {
			proxies.Waiting(t, queue...)
			r := proxies.Granted(t, queue[0])
			if queue = queue[1:]; r.Token != fmt.Sprint("t", i) {
				t.Errorf("number %d is %s", i, r.Token)
			}
			late(r.At, grants[i].At, rest)
		}
		proxies.Waiting(t, queue...)
		p[0].Unlock("t0")
		proxies.Granted(t, queue[0])
		p[0].Client().Breaks("job")

		g := proxies.Granted(t, p[0].Begin(t.Context(), redlock.Acquire{
			Token: "r", Mode: redlock.Read, Lease: time.Hour, AtLeast: rests[0],
		}))
		writer := p[1].Begin(t.Context(), redlock.Acquire{Token: "w", Lease: time.Minute, Wait: minute})
		time.Sleep(100 * time.Millisecond)
		p[0].Unlock("r")
		late(proxies.Granted(t, writer).At, g.At, rests[0])
		p[1].Unlock("w")
		s.Empty(t)
	})
}

// A hold rests that is let go because its connection has closed. What nobody was told of does not. R18
func TestRestOfAKeptHold(t *testing.T) {
	rig.InFakeTime(t, func(t *testing.T, s *rig.Server) {
		p := proxies.Start(t, s, 2)
		a := p[0].NewAcquire(redlock.Acquire{
			Name: "job", Token: "a", Mode: redlock.Write, Lease: time.Second, Keep: true,
			AtLeast: 3 * time.Second,
		})
		g, ok, err := p[0].Client().Acquire(a)
		if !ok || g.TTL != 3*time.Second {
			t.Fatalf("%+v %v", g, err)
		}
		kept := p[0].Keep(keepalive.Hold{Name: "job", Token: "a", Fence: g.Fence, Lease: time.Second,
			Until: g.At.Add(g.TTL), Keeper: a.Keeper})
		time.Sleep(2900 * time.Millisecond) // it was renewed since, for a second
		if left := p[1].State().Holders[0].TTL; left < 500*time.Millisecond || left > time.Second {
			t.Errorf("%v of the lease are left", left)
		}
		kept.Release()
		time.Sleep(50 * time.Millisecond)
		if state := p[1].State(); state.Name() != "resting" {
			t.Errorf("after its connection has closed: %+v", state)
		}
		time.Sleep(60 * time.Millisecond)
		s.Empty(t)

		lost := p[0].NewAcquire(redlock.Acquire{
			Name: "job", Token: "a", Mode: redlock.Write, AtLeast: 3 * time.Second,
		})
		if _, ok, err := p[0].Client().Acquire(lost); !ok {
			t.Fatal(err)
		}
		p[0].Undo(lost)
		time.Sleep(50 * time.Millisecond)
		s.Empty(t)
	})
}

// The reply to an UNLOCK is lost: the lock rests, and the same UNLOCK again gets the same answer. The reply
// to a LOCK is lost: nobody was told of the grant, so it does not rest. R16 R33
func TestRestWhenRepliesAreLost(t *testing.T) {
	rig.InFakeTime(t, func(t *testing.T, s *rig.Server) {
		p := proxies.Start(t, s, 2)
		lose := func(script string) {
			p[0].Up.Set(func(u *rig.Upstream) {
				u.Faults = func(ran string) (before, after error) {
					if ran != script {
						return nil, nil
					}
					u.Faults = nil
					return nil, errors.New("the reply was lost")
				}
			})
		}
		lose("acquire")
		a := redlock.Acquire{Token: "a", AtLeast: 3 * time.Second}
		if r := p[0].Lock(t.Context(), a); r.OK || r.Err == nil {
			t.Errorf("the reply to LOCK is lost: %+v", r)
		}
		time.Sleep(100 * time.Millisecond)
		s.Empty(t)

		if r := p[0].Lock(t.Context(), a); !r.OK {
			t.Fatalf("%+v", r)
		}
		lose("release")
		unlock := &redlock.Release{Name: "job", Token: "a", Named: "u1"}
		if n, err := p[0].Client().Release(unlock); err == nil {
			t.Errorf("the reply to UNLOCK is lost: %d", n)
		}
		for _, one := range p {
			if n, err := one.Client().Release(unlock); n != 1 || err != nil {
				t.Errorf("the same UNLOCK again: %d %v", n, err)
			}
			if r := one.Lock(t.Context(), redlock.Acquire{Token: "b"}); r.OK || r.Err != nil {
				t.Errorf("while it rests: %+v", r)
			}
		}
		time.Sleep(3 * time.Second)
		s.Empty(t)
	})
}
