package quorum_test

import (
	"testing"
	"time"

	"lockproxy/redlock"
	"lockproxy/redlock/internal/rig"
)

// A grant that is given back is freed on each node as soon as that can be told, and before anything else that
// the node is asked for the lock: else a later LOCK of the token would be one more count of a hold that is
// nobody's.
func TestQuorumOwesWhatIsGivenBack(t *testing.T) {
	onNetwork(t, 3, 1, func(t *testing.T, s *network) {
		l := s.proxies[0]
		grant := func() *redlock.Acquire {
			t.Helper()
			a := l.NewAcquire(redlock.Acquire{
				Name: "job", Token: "a", Mode: redlock.Write, Lease: time.Minute, Reentrant: true,
			})
			g, ok, err := (&rig.Asker{L: l}).Acquire(a)
			if !ok || err != nil || g.Count != 1 {
				t.Fatalf("granted %v, count %d, %v", ok, g.Count, err)
			}
			return a
		}
		away := func(script string) fault { return lostRequest }
		free := func(within time.Duration) {
			t.Helper()
			for end := time.Now().Add(within); s.free() != nil; time.Sleep(50 * time.Millisecond) {
				if time.Now().After(end) {
					t.Fatalf("after %v: %v", within, s.free())
				}
			}
		}

		a := grant()
		for n := 1; n < 3; n++ {
			s.links[0][n].fails(away)
		}
		l.Undo(a)
		time.Sleep(time.Second)
		for n := 1; n < 3; n++ {
			s.links[0][n].fails(nil)
		}
		a = grant() // by the same token: its count is 1

		s.links[0][2].fails(away)
		l.Undo(a)
		time.Sleep(20 * time.Second) // a majority has it back
		s.links[0][2].fails(nil)
		free(1500 * time.Millisecond)

		// What no node can be told ends with the lease.
		a = grant()
		for _, link := range s.links[0] {
			link.fails(away)
		}
		l.Undo(a)
		time.Sleep(62 * time.Second)
		free(0)
		for i, link := range s.links[0] {
			link.fails(func(script string) fault {
				if script == "cancel" {
					t.Errorf("node %d still has pending what is over", i)
				}
				return none
			})
		}
		mustLock(t, l, redlock.Acquire{Token: "b", Lease: time.Minute})
		mustUnlock(t, l, "b", 0, 1)
	})
}
