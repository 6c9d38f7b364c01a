package quorum_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"lockproxy/redlock"
	"lockproxy/redlock/internal/rig"
)

// A clock that has stepped since the last look ends a lease, and the very answer that shows it does not
// count: of three masters one has missed the grant, and one has forgotten it. Who sees the step only at its
// next look gives the lock twice. R27
func TestQuorumClockInAnswers(t *testing.T) {
	for _, deaf := range []bool{false, true} {
		for _, mode := range []redlock.Mode{redlock.Write, redlock.Read} {
			onNetwork(t, 3, 2, func(t *testing.T, s *network) {
				l, other := s.proxies[0], s.proxies[1]
				for _, link := range s.links[1] {
					link.deaf = deaf
				}
				mustLock(t, other, redlock.Acquire{Token: "w"})
				mustUnlock(t, other, "w", 0, 1)
				s.links[0][0].fails(func(string) fault { return lostRequest })
				mustLock(t, l, redlock.Acquire{Token: "a", Lease: 20 * time.Second, Mode: mode})
				s.masters[1].stepUnseen(time.Minute)
				r := lockAt(t.Context(), other, redlock.Acquire{Token: "b", Lease: 20 * time.Second})
				if r.OK != deaf {
					t.Errorf("%s, deaf: %v: %+v", mode, deaf, r)
				}
				time.Sleep(5 * time.Millisecond) // until all have answered
				if err := s.links[1][1].Vote(); !deaf && err == nil {
					t.Error("it votes still")
				}
				// Nor does it say anything of the hold, nor renew it.
				if left, err := renewAt(other, "a", 20*time.Second, 0); !deaf && !noQuorum(err) {
					t.Errorf("RENEW: %v %v", left, err)
				}
			})
		}
	}
}

// An answer that comes late shows no step. R27
func TestQuorumLateAnswersShowNoStep(t *testing.T) {
	onNetwork(t, 3, 1, func(t *testing.T, s *network) {
		for i, link := range s.links[0] {
			link.delay = func() time.Duration { return time.Duration(i) * 8 * time.Millisecond }
		}
		for range 20 {
			r := mustLock(t, s.proxies[0], redlock.Acquire{Lease: 20 * time.Second})
			mustUnlock(t, s.proxies[0], r.Token, r.Fence, 1)
		}
		for _, link := range s.links[0] {
			if err := link.Vote(); err != nil {
				t.Error(err)
			}
		}
	})
}

// The same token again is never answered with Null while it holds the lock, whatever others left on one
// master, and whoever else is late: it is granted, or an error says why not. Others are told Null still. R14
// R27
func TestQuorumSameTokenAgainIsNotNull(t *testing.T) {
	for _, wait := range []time.Duration{0, 300 * time.Millisecond} {
		onNetwork(t, 3, 2, func(t *testing.T, s *network) {
			l, other := s.proxies[0], s.proxies[1]
			s.links[0][0].fails(func(string) fault { return lostRequest })
			mustLock(t, l, redlock.Acquire{Token: "a", Lease: 20 * time.Second})
			// Others have a part of it for a while.
			s.links[1][0].fails(func(script string) fault {
				if script == "claim" {
					return none
				}
				return lostRequest
			})
			r := lockAt(t.Context(), other, redlock.Acquire{Token: "b", Lease: 20 * time.Second})
			if r.OK || r.Err != nil {
				t.Errorf("another token: %+v", r)
			}
			s.links[0][0].fails(nil)
			s.links[0][1].fails(func(string) fault { return silence })
			r = lockAt(t.Context(), l, redlock.Acquire{Token: "a", Lease: 20 * time.Second, Wait: wait})
			if r.OK || !noQuorum(r.Err) || !errors.Is(r.Err, redlock.ErrMayHold) {
				t.Errorf("WAIT %v: the same token again: %+v", wait, r)
			}
			// A token that holds nothing: one master of the two that answer refuses it.
			r = lockAt(t.Context(), l, redlock.Acquire{Token: "c", Lease: 20 * time.Second, Wait: wait})
			if r.OK || r.Err != nil {
				t.Errorf("WAIT %v: a third token: %+v", wait, r)
			}
			s.links[0][1].fails(nil)
			mustLock(t, l, redlock.Acquire{Token: "a", Lease: 20 * time.Second, Wait: wait})
			s.links[1][0].fails(nil)
		})
	}
}

// The same token again keeps its fence and what it was promised, whichever master answers first: one that has
// missed the grant, or its renewal, does not speak for those that are late. R15 R27
func TestQuorumSameTokenAgainKeepsItsGrant(t *testing.T) {
	for _, c := range []struct {
		name   string
		misses string // what one master does
	}{
		{"the grant", "claim"},
		{"the renewal", "renew"},
	} {
		for _, mode := range []redlock.Mode{redlock.Write, redlock.Read} {
			t.Run(c.name+" "+string(mode), func(t *testing.T) {
				onNetwork(t, 3, 1, func(t *testing.T, s *network) {
					l := s.proxies[0]
					s.links[0][2].fails(func(script string) fault {
						if script == c.misses {
							return lostRequest
						}
						return none
					})
					g := mustLock(t, l, redlock.Acquire{Token: "a", Lease: 2 * time.Second, Mode: mode})
					if _, err := renewAt(l, "a", 50*time.Second, 0); err != nil {
						t.Fatal(err)
					}
					s.links[0][2].fails(nil)
					s.links[0][1].delay = func() time.Duration { return 4 * time.Millisecond }
					for range 2 {
						r := mustLock(t, l, redlock.Acquire{Token: "a", Lease: 2 * time.Second, Mode: mode})
						if r.Fence != g.Fence || r.TTL < 48*time.Second || r.Count != 1 {
							t.Errorf("%+v after %+v", r, g)
						}
						time.Sleep(20 * time.Millisecond)
					}
				})
			})
		}
	}
}

// A master that is late for good does not keep the same token waiting for longer than its time. R27
func TestQuorumSameTokenAgainWaitsForNobodyLong(t *testing.T) {
	onNetwork(t, 3, 1, func(t *testing.T, s *network) {
		l := s.proxies[0]
		s.links[0][2].fails(func(string) fault { return lostRequest })
		g := mustLock(t, l, redlock.Acquire{Token: "a", Lease: 50 * time.Second})
		s.links[0][2].fails(nil)
		s.links[0][1].fails(func(string) fault { return silence })
		r := mustLock(t, l, redlock.Acquire{Token: "a", Lease: 2 * time.Second})
		if r.Fence < g.Fence || r.Took > testNodeTimeout+5*time.Millisecond {
			t.Errorf("%+v after %+v", r, g)
		}
		s.links[0][1].fails(nil)
	})
}

// A master that had lost the script is asked once more. If the attempt is decided meanwhile, its client may
// have let go of the lock there already, so what it makes then is taken back. R27
func TestQuorumWhatIsSentAgainTooLateIsTakenBack(t *testing.T) {
	onNetwork(t, 3, 1, func(t *testing.T, s *network) {
		lost := true
		var asked []string
		s.links[0][2].instead = func(req []byte) (changed, reply []byte) {
			switch script := rig.ScriptOf(req); {
			case script == "claim" && lost:
				lost = false
				return nil, []byte("-NOSCRIPT No matching script\r\n")
			case script == "": // with its source
				time.Sleep(5 * time.Millisecond) // until the others have decided
				asked = append(asked, "claim")
			default:
				asked = append(asked, script)
			}
			return req, nil
		}
		mustLock(t, s.proxies[0], redlock.Acquire{Token: "a", Lease: 20 * time.Second})
		time.Sleep(20 * time.Millisecond)
		s.links[0][2].mu.Lock()
		defer s.links[0][2].mu.Unlock()
		if got := strings.Join(asked, " "); !strings.HasPrefix(got, "claim cancel") {
			t.Errorf("it was asked to %s", got)
		}
	})
}
