package quorum_test

import (
	"testing"
	"time"

	"lockproxy/redlock"
	"lockproxy/redlock/internal/rig"
)

// A node whose answer was lost may have made another fence than the majority. It is given theirs, and nobody
// is told its own when another node is slow. R27
func TestQuorumTellsTheFenceOfTheMajority(t *testing.T) {
	onNetwork(t, 3, 1, func(t *testing.T, s *network) {
		l := s.proxies[0]
		s.masters[1].ahead = 40 * time.Second
		s.links[0][1].fails(func(script string) fault {
			return map[string]fault{"claim": lostReply}[script]
		})
		g := mustLock(t, l, redlock.Acquire{Token: "a"})
		s.links[0][0].delay = func() time.Duration { return 2 * time.Millisecond }
		told := func(when string) {
			t.Helper()
			state, err := (&rig.Asker{L: l}).State("job")
			if err != nil || len(state.Holders) != 1 || state.Holders[0].Fence != g.Fence {
				t.Errorf("%s: the grant had the fence %d; INFO: %+v %v", when, g.Fence, state, err)
			}
		}
		told("at once")
		time.Sleep(100 * time.Millisecond)
		s.links[0][0].fails(func(string) fault { return lostRequest })
		told("without a node")
		s.links[0][0].fails(nil)
		mustUnlock(t, l, "a", g.Fence, 1)
	})
}

// So is a node that answers when the client has its grant, and the Acquire is another one's.
func TestQuorumTellsALateNode(t *testing.T) {
	onNetwork(t, 3, 1, func(t *testing.T, s *network) {
		l := s.proxies[0]
		s.masters[2].ahead = 40 * time.Second
		s.links[0][2].delay = func() time.Duration { return 5 * time.Millisecond }
		a := l.NewAcquire(redlock.Acquire{Name: "job", Token: "a", Mode: redlock.Write, Lease: time.Second})
		g, ok, err := (&rig.Asker{L: l}).Acquire(a)
		if !ok {
			t.Fatal(err)
		}
		*a = redlock.Acquire{Name: "another", Token: "b", Mode: redlock.Write, Lease: time.Minute}
		time.Sleep(100 * time.Millisecond)
		for i := range s.masters[1:] {
			s.links[0][i].fails(func(string) fault { return lostRequest })
			state, err := (&rig.Asker{L: l}).State("job")
			if err != nil || len(state.Holders) != 1 || state.Holders[0].Fence != g.Fence {
				t.Errorf("the grant had the fence %d; INFO: %+v %v", g.Fence, state, err)
			}
			s.links[0][i].fails(nil)
		}
		mustUnlock(t, l, "a", g.Fence, 1)
	})
}

// The same before the node that differs has been told: the answer of another one is waited for. R27
func TestQuorumWaitsForTheFenceOfTheMajority(t *testing.T) {
	onNetwork(t, 3, 2, func(t *testing.T, s *network) {
		l, other := s.proxies[0], s.proxies[1]
		s.masters[1].ahead = 40 * time.Second
		s.links[0][1].fails(func(script string) fault {
			return map[string]fault{"claim": lostReply, "settle": lostRequest}[script]
		})
		g := mustLock(t, l, redlock.Acquire{Token: "a"})
		s.links[1][0].delay = func() time.Duration { return 2 * time.Millisecond }
		state, err := (&rig.Asker{L: other}).State("job")
		if err != nil || len(state.Holders) != 1 || state.Holders[0].Fence != g.Fence {
			t.Errorf("the grant had the fence %d; INFO at another proxy: %+v %v", g.Fence, state, err)
		}
		s.links[0][1].fails(nil)
		mustUnlock(t, l, "a", g.Fence, 1)
	})
}

// A reader that could not become the writer has the fence that it was told, though masters had made it the
// writer and given it another one. R27
func TestQuorumGivesAReaderItsFenceBack(t *testing.T) {
	onNetwork(t, 3, 1, func(t *testing.T, s *network) {
		l := s.proxies[0]
		g := mustLock(t, l, redlock.Acquire{Token: "a", Mode: redlock.Read})
		for i := range s.links[0][:2] {
			s.links[0][i].fails(func(script string) fault {
				return map[string]fault{"claim": lostReply}[script]
			})
		}
		if _, ok, err := (&rig.Asker{L: l}).Acquire(l.NewAcquire(redlock.Acquire{Name: "job", Token: "a",
			Mode: redlock.Write, Lease: 10 * time.Second})); ok || err == nil {
			t.Fatalf("became the writer: %v %v", ok, err)
		}
		for i := range s.links[0] {
			s.links[0][i].fails(nil)
		}
		time.Sleep(time.Second)
		state, err := (&rig.Asker{L: l}).State("job")
		if err != nil || len(state.Holders) != 1 || state.Holders[0].Fence != g.Fence {
			t.Errorf("the fence was %d; INFO: %+v %v", g.Fence, state, err)
		}
		mustUnlock(t, l, "a", g.Fence, 1)
	})
}
