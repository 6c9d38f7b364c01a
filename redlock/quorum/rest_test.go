package quorum_test

import (
	"testing"
	"time"

	"lockproxy/redlock"
	"lockproxy/redlock/internal/rig"
)

// A hold that is released early rests on a majority, while a minority is away: for whoever waits, and for all
// proxies. R27
func TestQuorumRests(t *testing.T) {
	onNetwork(t, 5, 2, func(t *testing.T, s *network) {
		l, other := s.proxies[0], s.proxies[1]
		for _, mode := range []redlock.Mode{redlock.Write, redlock.Read} {
			g := mustLock(t, l, redlock.Acquire{Token: "a", Mode: mode, Lease: 20 * time.Second,
				AtLeast: 3 * time.Second})
			began := time.Now()
			mustUnlock(t, l, "a", g.Fence, 1)
			mustUnlock(t, l, "a", g.Fence, -1)
			s.masters[0].crash()
			s.masters[4].crash()
			if r := lockAt(t.Context(), other, redlock.Acquire{Token: "a"}); r.OK || r.Err != nil {
				t.Errorf("a writer while the lock rests: %+v", r)
			}
			state, err := (&rig.Asker{L: other}).State("job")
			if err != nil || state.Name() != "resting" || state.Rest <= 2800*time.Millisecond ||
				state.Rest > 3*time.Second || state.Fence != 0 {
				t.Errorf("INFO: %+v %v", state, err)
			}
			r := mustLock(t, other, redlock.Acquire{Token: "b", Lease: 20 * time.Second, Wait: time.Minute})
			if took := r.At.Sub(began); took < 2990*time.Millisecond || took > 3200*time.Millisecond ||
				r.Fence <= g.Fence {
				t.Errorf("the next came after %v: %+v", took, r)
			}
			s.masters[0].up()
			s.masters[4].up()
			time.Sleep(5 * time.Second) // until they vote
			mustUnlock(t, other, "b", 0, 1)
			time.Sleep(time.Second)
			if err := s.free(); err != nil {
				t.Error(err)
			}
		}
		mustLock(t, l, redlock.Acquire{Token: "a", AtLeast: 3 * time.Second})
		mustUnlock(t, l, "a", 0, 1)
		if broken, err := (&rig.Asker{L: other}).Breaks("job"); err != nil || !broken {
			t.Errorf("BREAK: %v %v", broken, err)
		}
		mustLock(t, other, redlock.Acquire{Token: "b"})
	})
}
