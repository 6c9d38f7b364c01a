package locks_test

import (
	"testing"
	"time"

	"lockproxy/redlock"
	"lockproxy/redlock/internal/proxies"
	"lockproxy/redlock/internal/rig"
)

// A reader who waits to become the writer gets the lock when the last other shared hold runs out,
// also when somebody else of its proxy has come to the queue before it. R25 R30
func TestUpgradeWhenTheOthersRunOut(t *testing.T) {
	rig.InFakeTime(t, func(t *testing.T, s *rig.Server) {
		p := proxies.Start(t, s, 1)[0]
		proxies.Granted(t, p.Begin(t.Context(), redlock.Acquire{
			Token: "a", Mode: redlock.Read, Lease: 10 * minute,
		}))
		proxies.Granted(t, p.Begin(t.Context(), redlock.Acquire{
			Token: "b", Mode: redlock.Read, Lease: 5 * time.Second,
		}))
		began := time.Now()
		writer := p.Begin(t.Context(), redlock.Acquire{Token: "c", Wait: 5 * minute})
		upgrade := p.Begin(t.Context(), redlock.Acquire{Token: "a", Wait: minute})
		if r := proxies.Granted(t, upgrade); r.At.Sub(began) > 5100*time.Millisecond {
			t.Errorf("it became the writer after %v", r.At.Sub(began))
		}
		proxies.Waiting(t, writer)
		p.Unlock("a")
		proxies.Granted(t, writer)
		p.Unlock("c")
		s.Empty(t)
	})
}
