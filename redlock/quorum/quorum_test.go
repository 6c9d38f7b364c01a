package quorum_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"lockproxy/redlock"
	"lockproxy/redlock/internal/proxies"
	"lockproxy/redlock/internal/rig"
	"lockproxy/redlock/locks"
	"lockproxy/redlock/quorum"
)

// onNetwork runs test in fake time with masters that answer after a millisecond.
func onNetwork(t *testing.T, masters, proxies int, test func(t *testing.T, s *network)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := newNetwork(t, masters, proxies, 3*time.Second)
		for _, links := range s.links {
			for _, l := range links {
				l.delay = func() time.Duration { return 500 * time.Microsecond }
			}
		}
		defer func() {
			if err := s.end(); err != nil {
				t.Error(err)
			}
		}()
		test(t, s)
	})
}

func mustLock(t *testing.T, l *locks.Locker, a redlock.Acquire) proxies.Result {
	t.Helper()
	r := lockAt(t.Context(), l, a)
	if r.Err != nil || !r.OK {
		t.Fatalf("%s did not get the lock: %v", a.Token, r.Err)
	}
	return r
}

func mustUnlock(t *testing.T, l *locks.Locker, token string, fence int64, want int) {
	t.Helper()
	if got, err := unlockAt(l, token, fence); err != nil || got != want {
		t.Fatalf("UNLOCK of %s: %d %v, want %d", token, got, err, want)
	}
}

// A lock over five masters is one lock: it excludes, is renewed, counted, inspected and released,
// and its fences rise; a grant takes one round. R27
func TestQuorum(t *testing.T) {
	onNetwork(t, 5, 2, func(t *testing.T, s *network) {
		l, other := s.proxies[0], s.proxies[1]
		mustLock(t, l, redlock.Acquire{Token: "warm"})
		mustUnlock(t, l, "warm", 0, 1)
		g := mustLock(t, l, redlock.Acquire{Token: "a", Lease: time.Second})
		if g.Took > 2*time.Millisecond {
			t.Errorf("a grant took %v: more than a round", g.Took)
		}
		if want := time.Second - driftOf(time.Second) - time.Millisecond; g.TTL > want ||
			g.TTL < want-time.Millisecond {
			t.Errorf("a validity of %v, want %v", g.TTL, want)
		}
		if r := lockAt(t.Context(), other, redlock.Acquire{Token: "b"}); r.OK || r.Err != nil {
			t.Errorf("a second writer: %+v", r)
		}
		r := mustLock(t, other, redlock.Acquire{Token: "a", Lease: time.Second})
		if r.Fence != g.Fence || r.Count != 1 {
			t.Errorf("the same token again: %+v, want the fence %d", r, g.Fence)
		}
		twice := redlock.Acquire{Token: "a", Lease: time.Second, Reentrant: true, Meta: "twice"}
		if r := mustLock(t, other, twice); r.Fence != g.Fence || r.Count != 2 {
			t.Errorf("re-entered: %+v", r)
		}
		if left, err := renewAt(other, "a", 2*time.Second, g.Fence); err != nil ||
			left < 1900*time.Millisecond || left > 2*time.Second-driftOf(2*time.Second) {
			t.Errorf("renewed: %v %v", left, err)
		}
		if left, err := renewAt(other, "b", 2*time.Second, 0); err != nil || left != 0 {
			t.Errorf("renewed what it does not hold: %v %v", left, err)
		}
		state, err := (&rig.Asker{L: other}).State("job")
		if err != nil || len(state.Holders) != 1 || state.Holders[0].Count != 2 ||
			state.Holders[0].Meta != "twice" || state.Fence != g.Fence ||
			state.Holders[0].TTL <= 0 || state.Holders[0].TTL > 2*time.Second {
			t.Errorf("INFO: %+v %v", state, err)
		}
		mustUnlock(t, l, "b", 0, -1)
		mustUnlock(t, l, "a", g.Fence+1, -1)
		mustUnlock(t, l, "a", g.Fence, 0)
		mustUnlock(t, l, "a", g.Fence, 1)
		mustUnlock(t, l, "a", 0, -1)
		r1 := mustLock(t, l, redlock.Acquire{Token: "r1", Mode: redlock.Read})
		r2 := mustLock(t, other, redlock.Acquire{Token: "r2", Mode: redlock.Read})
		if r1.Fence <= g.Fence || r2.Fence <= r1.Fence {
			t.Errorf("fences %d, %d, %d", g.Fence, r1.Fence, r2.Fence)
		}
		if r := lockAt(t.Context(), l, redlock.Acquire{Token: "r1"}); r.OK || r.Err != nil {
			t.Errorf("a writer while another reads: %+v", r)
		}
		mustUnlock(t, l, "r2", 0, 1)
		up := mustLock(t, l, redlock.Acquire{Token: "r1"})
		if up.Fence <= r2.Fence {
			t.Errorf("the writer's fence %d is not above %d", up.Fence, r2.Fence)
		}
		mustLock(t, l, redlock.Acquire{Token: "r1", Mode: redlock.Read})
		mustLock(t, other, redlock.Acquire{Token: "r3", Mode: redlock.Read})
		if broken, err := (&rig.Asker{L: l}).Breaks("job"); err != nil || !broken {
			t.Errorf("BREAK: %v %v", broken, err)
		}
		if r := mustLock(t, l, redlock.Acquire{Token: "c"}); r.Fence <= up.Fence {
			t.Errorf("after BREAK the fence %d is not above %d", r.Fence, up.Fence)
		}
		mustUnlock(t, l, "c", 0, 1)
		time.Sleep(10 * time.Millisecond)
		if err := s.free(); err != nil {
			t.Error(err)
		}
	})
}

// By default masters that are far away, or have much to do, vote in time, also on the shortest lease. What
// they take is taken off that. R27
func TestFarMasters(t *testing.T) {
	onNetwork(t, 5, 1, func(t *testing.T, s *network) {
		l := locks.NewRedlock(s.nodes[0], quorum.Options{}, locks.Options{Log: s.left.Logger()})
		defer l.Close(context.Background())
		const least = quorum.LeastLeases * quorum.DefaultNodeTimeout
		for _, oneWay := range []time.Duration{30 * time.Millisecond, 120 * time.Millisecond} {
			synctest.Wait() // nothing is on its way
			for _, link := range s.links[0] {
				link.delay = func() time.Duration { return oneWay }
			}
			g := mustLock(t, l, redlock.Acquire{Token: "a", Lease: least})
			if most := least - 2*oneWay - driftOf(least); g.TTL > most || g.TTL < most-2*time.Millisecond {
				t.Errorf("masters %v away left %v of a lease of %v", oneWay, g.TTL, least)
			}
			if left, err := renewAt(l, "a", least, g.Fence); err != nil || left > least-2*oneWay {
				t.Errorf("masters %v away: renewed for %v: %v", oneWay, left, err)
			}
			mustUnlock(t, l, "a", g.Fence, 1)
		}
	})
}

// Masters that all stand still for less than their time-out, at the same time and while one of them has gone
// silent, are a majority: whoever asks meanwhile is told that the lock is held, or not. R27
func TestStalledMasters(t *testing.T) {
	for _, silent := range []bool{false, true} {
		onNetwork(t, 3, 2, func(t *testing.T, s *network) {
			const stall, every = 100 * time.Millisecond, 230 * time.Millisecond
			began := time.Now()
			stands := func() time.Duration {
				return 500*time.Microsecond + max(0, stall-time.Since(began)%every)
			}
			var ls []*locks.Locker
			for i, links := range s.links {
				for _, link := range links {
					link.delay = stands
				}
				if silent {
					links[2].fails(func(string) fault { return silence })
				}
				ls = append(ls, locks.NewRedlock(s.nodes[i], quorum.Options{},
					locks.Options{Log: s.left.Logger()}))
			}
			var busy sync.WaitGroup
			var grants, nulls atomic.Int64
			for n := range 8 {
				busy.Go(func() {
					for i := range 60 {
						a := redlock.Acquire{Lease: 20 * time.Second, Mode: redlock.Read}
						if n%4 > 0 {
							a.Mode = redlock.Write
						}
						if n%2 > 0 {
							a.Token = fmt.Sprint("t", n)
						}
						r := lockAt(t.Context(), ls[n/4], a)
						switch {
						case noQuorum(r.Err) && strings.Contains(r.Err.Error(), "did not agree on a fence"):
						case r.Err != nil:
							t.Errorf("after %v: %v", time.Since(began), r.Err)
						case r.OK:
							grants.Add(1)
							if _, err := unlockAt(ls[n/4], r.Token, r.Fence); err != nil {
								t.Errorf("UNLOCK after %v: %v", time.Since(began), err)
							}
						default:
							nulls.Add(1)
						}
						time.Sleep(time.Duration(1+(7*n+3*i)%20) * time.Millisecond)
					}
				})
			}
			busy.Wait()
			for _, l := range ls {
				l.Close(context.Background())
			}
			t.Logf("%d grants, %d refused, in %v", grants.Load(), nulls.Load(), time.Since(began))
			if grants.Load() == 0 || nulls.Load() == 0 {
				t.Errorf("%d grants, %d refused", grants.Load(), nulls.Load())
			}
		})
	}
}

// NOQUORUM is for nodes that cannot be had, Null for locks that others hold. A node that is
// silent costs its timeout, one that is known to be away nothing. R27
func TestQuorumOfDeadNodes(t *testing.T) {
	onNetwork(t, 5, 2, func(t *testing.T, s *network) {
		l, other := s.proxies[0], s.proxies[1]
		mute := func(n int, how fault) {
			for _, links := range s.links {
				links[n].fails(func(string) fault { return how })
			}
		}
		mute(0, silence)
		mute(1, silence)
		g := mustLock(t, l, redlock.Acquire{Token: "a"})
		if g.Took > 3*time.Millisecond {
			t.Errorf("with two silent nodes of five a grant took %v", g.Took)
		}
		if r := lockAt(t.Context(), other, redlock.Acquire{Token: "b"}); r.OK || r.Err != nil ||
			r.Took > testNodeTimeout+time.Millisecond {
			t.Errorf("held by another: %v %v after %v", r.OK, r.Err, r.Took)
		}
		mute(2, silence)
		r := lockAt(t.Context(), other, redlock.Acquire{Token: "b"})
		if r.OK || r.Err == nil || !strings.HasPrefix(r.Err.Error(), "NOQUORUM 2/3 ") ||
			r.Took > testNodeTimeout+time.Millisecond {
			t.Errorf("three silent nodes of five: %v %v after %v", r.OK, r.Err, r.Took)
		}
		if _, err := unlockAt(l, "a", 0); err == nil || !noQuorum(err) {
			t.Errorf("UNLOCK by two of five: %v", err)
		}
		for n := range 3 {
			mute(n, none)
			s.masters[n].crash()
		}
		asked := s.links[1][4].asked
		r = lockAt(t.Context(), other, redlock.Acquire{Token: "b"})
		if !noQuorum(r.Err) || r.Took > 0 || s.links[1][4].asked != asked {
			t.Errorf("without a majority: %v after %v, %d requests", r.Err, r.Took, s.links[1][4].asked-asked)
		}
		s.masters[0].up()
		if r = lockAt(t.Context(), other, redlock.Acquire{Token: "b"}); !noQuorum(r.Err) {
			t.Errorf("one that was restarted made a majority: %+v", r)
		}
		time.Sleep(3 * time.Second) // until it votes again
		if g := mustLock(t, other, redlock.Acquire{Token: "b"}); g.Took > 2*time.Millisecond {
			t.Errorf("with two dead nodes of five a grant took %v", g.Took)
		}
		if on := s.holdsOn("b"); !slices.Equal(on, []int{0, 3, 4}) {
			t.Errorf("held on %v", on)
		}
		mustUnlock(t, other, "b", 0, 1)
		s.masters[1].up() // it does not vote, but takes part
		mustLock(t, other, redlock.Acquire{Token: "c"})
		time.Sleep(10 * time.Millisecond)
		if on := s.holdsOn("c"); !slices.Equal(on, []int{0, 1, 3, 4}) {
			t.Errorf("held on %v", on)
		}
		mustUnlock(t, other, "c", 0, 1)
	})
}

// What an attempt has left on a few nodes is never reported as held, and is taken back as soon as
// the nodes can be had. R27
func TestQuorumTakesBack(t *testing.T) {
	onNetwork(t, 5, 2, func(t *testing.T, s *network) {
		l := s.proxies[0]
		for n := range 3 {
			s.links[0][n].fails(func(string) fault { return lostReply })
		}
		if r := lockAt(t.Context(), l, redlock.Acquire{Token: "a", Lease: time.Minute}); !noQuorum(r.Err) {
			t.Fatalf("%+v", r)
		}
		time.Sleep(5 * time.Millisecond)
		if on := s.holdsOn("a"); len(on) > 0 {
			t.Errorf("held on %v: the cancel arrives though its reply is lost", on)
		}
		for n := range 3 {
			s.links[0][n].fails(nil)
		}
		time.Sleep(100 * time.Millisecond) // until their replies say so
		// Requests do not arrive for a while.
		lose := func(script string) fault {
			if script == "cancel" {
				return lostRequest
			}
			return lostReply
		}
		for n := range 3 {
			s.links[0][n].fails(lose)
		}
		if r := lockAt(t.Context(), l, redlock.Acquire{Token: "a", Lease: time.Minute}); !noQuorum(r.Err) {
			t.Fatalf("%+v", r)
		}
		time.Sleep(100 * time.Millisecond)
		if on := s.holdsOn("a"); !slices.Equal(on, []int{0, 1, 2}) {
			t.Errorf("held on %v", on)
		}
		s.masters[2].crash()
		if left, err := renewAt(s.proxies[1], "a", time.Minute, 0); left != 0 || !noQuorum(err) {
			t.Errorf("RENEW of what may be on a majority: %v %v", left, err)
		}
		s.masters[2].up()
		time.Sleep(3 * time.Second)
		if left, err := renewAt(s.proxies[1], "a", time.Second, 0); left != 0 || err != nil {
			t.Errorf("RENEW of what is on two of five: %v %v", left, err)
		}
		if state, err := (&rig.Asker{L: s.proxies[1]}).State("job"); err != nil || len(state.Holders) > 0 {
			t.Errorf("INFO of what is on two of five: %+v %v", state, err)
		}
		mustLock(t, s.proxies[1], redlock.Acquire{Token: "b"})
		mustUnlock(t, s.proxies[1], "b", 0, 1)
		for n := range 3 {
			s.links[0][n].fails(nil)
		}
	})
}

// A fence is agreed on in a second round when clocks differ and the candidate was not high enough, and
// UNLOCK with that fence releases on all nodes, those that came too late too. R27
func TestQuorumAgreesOnAFence(t *testing.T) {
	onNetwork(t, 5, 1, func(t *testing.T, s *network) {
		l := s.proxies[0]
		for i, ahead := range []time.Duration{-5, 40, 0, 7, 3} {
			s.masters[i].ahead = ahead * time.Second
		}
		s.links[0][3].delay = func() time.Duration { return 4 * time.Millisecond }
		var last int64
		for i := range 4 {
			token := fmt.Sprint("t", i)
			g := mustLock(t, l, redlock.Acquire{
				Token: token, Mode: []redlock.Mode{redlock.Write, redlock.Read}[i%2],
			})
			if g.Fence <= last {
				t.Errorf("the fence %d is not above %d", g.Fence, last)
			}
			last = g.Fence
			time.Sleep(20 * time.Millisecond)
			if on := s.holdsOn(token); len(on) != 5 {
				t.Errorf("held on %v", on)
			}
			mustUnlock(t, l, token, g.Fence, 1)
			time.Sleep(20 * time.Millisecond)
			if err := s.free(); err != nil {
				t.Error(err)
			}
		}
	})
}

// SYNC is refused by name, and a lease too short for the nodes' timeout too. R27 R32
func TestQuorumRefuses(t *testing.T) {
	onNetwork(t, 3, 1, func(t *testing.T, s *network) {
		l := s.anew(0, locks.Options{Lease: time.Second, Sync: 2, FailoverGrace: time.Minute})
		if l.Sync() != 0 {
			t.Errorf("replicas %d", l.Sync())
		}
		g := mustLock(t, l, redlock.Acquire{Token: "a"})
		a := l.NewAcquire(redlock.Acquire{Name: "job", Token: "a", Mode: redlock.Write, Sync: 1})
		if _, err := l.Confirm(t.Context(), a, g.Grant); !errors.Is(err, quorum.ErrSync) {
			t.Errorf("SYNC: %v", err)
		}
		mustUnlock(t, l, "a", 0, 1)
		r := lockAt(t.Context(), l, redlock.Acquire{Token: "b",
			Lease: quorum.LeastLeases*testNodeTimeout - time.Millisecond})
		if r.Err == nil || !strings.HasPrefix(r.Err.Error(), "ERR ") ||
			!strings.Contains(r.Err.Error(), "at least 80 ms") {
			t.Errorf("a short lease: %v", r.Err)
		}
		s.masters[0].Ask("SET", rig.LockKey, "x")
		mustLock(t, l, redlock.Acquire{Token: "c"})
		mustUnlock(t, l, "c", 0, 1)
		s.masters[1].Ask("SET", rig.LockKey, "x")
		if r = lockAt(t.Context(), l, redlock.Acquire{Token: "d"}); r.Err == nil ||
			!strings.HasPrefix(r.Err.Error(), "LOCKTYPE ") {
			t.Errorf("a key that is no lock: %v", r.Err)
		}
		if _, _, err := l.List(context.Background(), locks.Listing{Match: "*", Count: 10}); err != nil {
			t.Errorf("LIST: %v", err)
		}
	})
}
