package quorum_test

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"lockproxy/redlock"
	"lockproxy/redlock/internal/rig"
	"lockproxy/redlock/locks"
)

// notHeld fails if a majority has a hold of token, now or within the time of a node.
func notHeld(t *testing.T, s *network, token string) {
	t.Helper()
	for range testNodeTimeout / time.Millisecond {
		if on := s.holdsOn(token); len(on) > len(s.masters)/2 {
			t.Fatalf("%s was told that it does not hold the lock, and has it on %v", token, on)
		}
		time.Sleep(time.Millisecond)
	}
}

// partly leaves a hold of token b on the first master alone.
func partly(t *testing.T, s *network) {
	t.Helper()
	s.links[1][0].fails(func(script string) fault {
		if script == "claim" {
			return none
		}
		return lostRequest
	})
	for _, link := range s.links[1][1:] {
		link.fails(func(string) fault { return lostRequest })
	}
	r := lockAt(t.Context(), s.proxies[1], redlock.Acquire{Token: "b", Lease: 20 * time.Second})
	time.Sleep(5 * time.Millisecond)
	if on := s.holdsOn("b"); !noQuorum(r.Err) || len(on) != 1 {
		t.Fatalf("%+v, on %v", r, on)
	}
}

// Null over RedLock is told when a majority is known to have nothing of the request: not while it may be on
// one that has taken it and on another one whose reply was lost, and if what takes it back is lost it is an
// error instead. That takes no longer than the time of a node. R10 R27
func TestQuorumNullIsKnown(t *testing.T) {
	// fails has the second and the third master fail like this, script by script.
	type fails [2]map[string]fault
	for _, c := range []struct {
		name    string
		fails   fails
		token   string
		inDoubt bool
		most    time.Duration
	}{
		{"a reply is lost", fails{1: {"claim": lostReply}}, "a", false, 4 * time.Millisecond},
		{"nobody was told of the token", fails{1: {"claim": lostReply}}, "", false, 2 * time.Millisecond},
		{"what takes it back is lost", fails{{"cancel": lostRequest}, {"claim": lostReply,
			"cancel": lostRequest}}, "a", true, 4 * time.Millisecond},
		{"one is silent", fails{1: {"claim": silence, "cancel": silence}}, "a", false,
			testNodeTimeout + 4*time.Millisecond},
		{"the other one too, from then on", fails{{"cancel": silence}, {"claim": silence, "cancel": silence}},
			"a", true, 2*testNodeTimeout + 4*time.Millisecond},
	} {
		for _, mode := range []redlock.Mode{redlock.Write, redlock.Read} {
			t.Run(c.name+" "+string(mode), func(t *testing.T) {
				onNetwork(t, 3, 2, func(t *testing.T, s *network) {
					partly(t, s)
					for i, how := range c.fails {
						s.links[0][i+1].fails(func(script string) fault { return how[script] })
					}
					r := lockAt(t.Context(), s.proxies[0], redlock.Acquire{
						Token: c.token, Mode: mode, Lease: 20 * time.Second,
					})
					doubt := errors.Is(r.Err, redlock.ErrMayHold)
					if r.OK || doubt != c.inDoubt || doubt != noQuorum(r.Err) || r.Took > c.most {
						t.Fatalf("%+v", r)
					}
					if !doubt && c.token != "" {
						notHeld(t, s, c.token)
					}
					for _, link := range append(s.links[0], s.links[1]...) {
						link.fails(nil)
					}
				})
			})
		}
	}
}

// A wait that ends while an attempt is under way is in vain only when that is known to have left nothing, and
// lasts longer by the time of a node at most. R10 R27
func TestQuorumWaitInVainIsKnown(t *testing.T) {
	for _, lost := range []bool{false, true} {
		onNetwork(t, 3, 2, func(t *testing.T, s *network) {
			mustLock(t, s.proxies[1], redlock.Acquire{Token: "b", Lease: 20 * time.Second})
			for _, link := range s.links[0] {
				link.delay = func() time.Duration { return 4 * time.Millisecond }
			}
			const wait = 200 * time.Millisecond
			time.AfterFunc(wait-2*time.Millisecond, func() {
				unlockAt(s.proxies[1], "b", 0)
				for _, link := range s.links[0] {
					link.fails(func(script string) fault {
						if lost && script == "cancel" {
							return lostRequest
						}
						return none
					})
				}
			})
			r := lockAt(t.Context(), s.proxies[0], redlock.Acquire{
				Token: "a", Lease: 20 * time.Second, Wait: wait,
			})
			doubt := errors.Is(r.Err, redlock.ErrMayHold)
			if r.OK || doubt != lost || !doubt && r.Err != nil || r.Took > wait+testNodeTimeout {
				t.Fatalf("cancels are lost: %v: %+v", lost, r)
			}
			if !lost {
				notHeld(t, s, "a")
			}
			for _, link := range s.links[0] {
				link.fails(nil)
			}
		})
	}
}

// NOQUORUM says that the token may hold the lock exactly if too few masters are known not to have it. R10 R27
func TestQuorumErrorsSayWhatMayBeHeld(t *testing.T) {
	for _, c := range []struct {
		name    string
		how     fault
		down    bool
		token   string
		inDoubt bool
	}{
		{"silent", silence, false, "a", true},
		{"replies are lost", lostReply, false, "a", true},
		{"nobody knows the token", silence, false, "", false},
		{"away", none, true, "a", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			onNetwork(t, 3, 1, func(t *testing.T, s *network) {
				for i, link := range s.links[0][1:] {
					link.fails(func(string) fault { return c.how })
					link.trust = true // it votes, as far as is known
					if c.down {
						s.masters[i+1].crash()
					}
				}
				ask := redlock.Acquire{Token: c.token, Lease: 20 * time.Second}
				r := lockAt(t.Context(), s.proxies[0], ask)
				if !noQuorum(r.Err) || errors.Is(r.Err, redlock.ErrMayHold) != c.inDoubt ||
					r.Took > testNodeTimeout {
					t.Errorf("%+v", r)
				}
				// As long as it cannot be taken back, the next request is told so too.
				for _, link := range s.links[0][1:] {
					link.fails(func(string) fault { return lostRequest })
				}
				r = lockAt(t.Context(), s.proxies[0], ask)
				if !noQuorum(r.Err) || errors.Is(r.Err, redlock.ErrMayHold) != c.inDoubt {
					t.Errorf("again: %+v", r)
				}
				for _, link := range s.links[0] {
					link.fails(nil)
				}
			})
		})
	}
}

// checkAt is LOCKCTL CHECK.
func checkAt(l *locks.Locker, token string) (held bool, err error) {
	l.Inspect((&rig.Asker{L: l}).By(), "job", token, func(s redlock.State, e error) []byte {
		held, err = s.Held(token) != nil, e
		return nil
	})
	return held, err
}

// Who asks whether the token holds the lock, after an error that leaves it open, does not keep what is left
// from being taken back, unless it was told that the token holds it. R10 R27
func TestQuorumCheckKeepsOnlyWhatItTellsOf(t *testing.T) {
	for _, c := range []struct {
		name    string
		left    int // masters that have it
		asks    int // the proxy that is asked
		says    bool
		noReply bool
	}{
		{"the same proxy, while it takes it back", 3, 0, false, true},
		{"another one, which is told", 3, 1, true, false},
		{"another one, and few have it", 1, 1, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			onNetwork(t, 3, 2, func(t *testing.T, s *network) {
				for i, link := range s.links[0] {
					link.fails(func(script string) fault {
						switch {
						case script == "claim" && i < c.left:
							return lostReply
						case script == "claim" || script == "cancel":
							return lostRequest
						}
						return none
					})
				}
				r := lockAt(t.Context(), s.proxies[0], redlock.Acquire{Token: "a", Lease: 20 * time.Second})
				if !errors.Is(r.Err, redlock.ErrMayHold) {
					t.Fatalf("%+v", r)
				}
				time.Sleep(5 * time.Millisecond)
				if on := s.holdsOn("a"); len(on) != c.left {
					t.Fatalf("held on %v", on)
				}
				held, err := checkAt(s.proxies[c.asks], "a")
				if held != c.says || noQuorum(err) != c.noReply || !c.noReply && err != nil {
					t.Errorf("CHECK: %v %v", held, err)
				}
				for _, link := range s.links[0] {
					link.fails(nil)
				}
				time.Sleep(3 * time.Second)
				if on := s.holdsOn("a"); (len(on) > 0) != c.says {
					t.Errorf("held on %v", on)
				}
				if c.says {
					mustUnlock(t, s.proxies[c.asks], "a", 0, 1)
				}
			})
		})
	}
}

// An MLOCK that is not granted has given back what it had before it says so, or says that it has not. R10 R27
func TestQuorumSetInVainIsKnown(t *testing.T) {
	for _, silent := range []bool{false, true} {
		onNetwork(t, 3, 2, func(t *testing.T, s *network) {
			for _, m := range s.masters {
				m.Ask("SET", "lock:{b}", "x")
			}
			var claims atomic.Int64
			for _, link := range s.links[0] {
				link.fails(func(script string) fault {
					if script == "claim" {
						claims.Add(1)
					}
					if silent && claims.Load() > 3 {
						return silence
					}
					return none
				})
			}
			ok, _, err := setAt(s.proxies[0], redlock.Acquire{Token: "t", Lease: 20 * time.Second}, "job",
				"b").Take(t.Context())
			if ok || err == nil || errors.Is(err, redlock.ErrMayHold) != silent {
				t.Errorf("silent %v: %v %v", silent, ok, err)
			}
			if !silent {
				notHeld(t, s, "t")
			}
			for _, link := range s.links[0] {
				link.fails(nil)
			}
		})
	}
}
