package redlock

import (
	"testing"
	"time"
)

// A reader who waits to become the writer gets the lock when the last other shared hold runs out,
// also when somebody else of its proxy has come to the queue before it. R25 R30
func TestUpgradeWhenTheOthersRunOut(t *testing.T) {
	inFakeTime(t, func(t *testing.T, s *server) {
		p := s.proxies(t, 1)[0]
		granted(t, p.begin(t.Context(), Acquire{Token: "a", Mode: Read, Lease: 10 * minute}))
		granted(t, p.begin(t.Context(), Acquire{Token: "b", Mode: Read, Lease: 5 * time.Second}))
		began := time.Now()
		writer := p.begin(t.Context(), Acquire{Token: "c", Wait: 5 * minute})
		upgrade := p.begin(t.Context(), Acquire{Token: "a", Wait: minute})
		if r := granted(t, upgrade); r.at.Sub(began) > 5100*time.Millisecond {
			t.Errorf("it became the writer after %v", r.at.Sub(began))
		}
		waiting(t, writer)
		p.unlock("a")
		granted(t, writer)
		p.unlock("c")
		s.empty(t)
	})
}
