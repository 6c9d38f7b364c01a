package quorum_test

import (
	"testing"
	"testing/synctest"
	"time"

	"lockproxy/redlock"
	"lockproxy/redlock/internal/proxies"
)

// The rounds of one LOCK ... REENTRANT that failed do not count as re-entries: the first grant has the count
// 1 on the nodes too, whether what takes a round back is lost, late or overtaken by the next round. R15 R27
func TestQuorumCountsOneRequestOnce(t *testing.T) {
	for _, c := range []struct {
		name   string
		cancel fault // what happens to it
		others bool  // the node that the failed rounds were granted by is one of the majority
	}{
		{"the cancel is lost", lostRequest, true},
		{"its reply is lost", lostReply, true},
		{"its reply never comes", silence, true},
		{"the cancel is lost, and the others grant", lostRequest, false},
		{"nothing is lost", none, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			onNetwork(t, 3, 2, func(t *testing.T, s *network) {
				l, other := s.proxies[0], s.proxies[1]
				s.links[1][0].fails(func(string) fault { return lostRequest })
				mustLock(t, other, redlock.Acquire{Token: "b", Lease: 20 * time.Second})
				// Node 0 is free: each round has it, and no other.
				s.links[0][0].fails(func(script string) fault {
					if script == "cancel" {
						return c.cancel
					}
					return none
				})
				done := beginAt(t.Context(), l, redlock.Acquire{
					Token: "a", Reentrant: true, Wait: time.Minute, Lease: 20 * time.Second,
				})
				time.Sleep(2500 * time.Millisecond)
				if c.others {
					s.links[0][2].fails(func(string) fault { return lostRequest })
				}
				s.links[0][0].fails(nil)
				mustUnlock(t, other, "b", 0, 1)
				if r := proxies.Granted(t, done); r.Count != 1 {
					t.Errorf("the first grant has the count %d", r.Count)
				}
				time.Sleep(time.Second)
				if r := mustLock(t, l,
					redlock.Acquire{Token: "a", Reentrant: true, Lease: 20 * time.Second}); r.Count != 2 {
					t.Errorf("the re-entry has the count %d", r.Count)
				}
				mustUnlock(t, l, "a", 0, 0)
				mustUnlock(t, l, "a", 0, 1)
				s.links[0][2].fails(nil)
				time.Sleep(time.Second)
				if err := s.free(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// A node that answers again just when the next round asks does not count what the round before left. Nor does
// the next LOCK of a token whose LOCK failed. R15 R27
func TestQuorumCountsAfterFailure(t *testing.T) {
	onNetwork(t, 3, 1, func(t *testing.T, s *network) {
		l := s.proxies[0]
		for _, link := range s.links[0] {
			link.fails(func(script string) fault {
				if script == "claim" {
					return lostReply // it has run
				}
				return lostRequest
			})
		}
		if r := lockAt(t.Context(), l, redlock.Acquire{Token: "a", Reentrant: true}); !noQuorum(r.Err) {
			t.Fatalf("%+v", r)
		}
		synctest.Wait() // two failures are enough for the answer: the third node may still be at it
		if on := s.holdsOn("a"); len(on) != 3 {
			t.Fatalf("left on %v", on)
		}
		for _, link := range s.links[0] {
			link.fails(nil)
		}
		if r := mustLock(t, l, redlock.Acquire{Token: "a", Reentrant: true}); r.Count != 1 {
			t.Errorf("the first grant has the count %d", r.Count)
		}
		mustUnlock(t, l, "a", 0, 1)
	})
}
