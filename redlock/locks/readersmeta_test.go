package locks_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"lockproxy/redlock"
	"lockproxy/redlock/internal/proxies"
	"lockproxy/redlock/internal/rig"
)

// INFO tells of all readers, and BREAK ends all their holds, though so long ones are read in several steps.
// Who waits gets the lock when the last one has gone. R21 R23 R28
func TestReadersWithLongMeta(t *testing.T) {
	const n = 450 // three steps
	meta := strings.Repeat("m", 1024)
	rig.Everywhere(t, func(t *testing.T, s *rig.Server) {
		p := proxies.Start(t, s, 2)
		for i := range n {
			if r := p[0].Lock(t.Context(),
				redlock.Acquire{Token: fmt.Sprint("r", i), Mode: redlock.Read, Lease: time.Hour,
					Meta: meta}); !r.OK {
				t.Fatalf("reader %d: %+v", i, r)
			}
		}
		proxies.SeeReaders(t, p[1].Locker, p[1].Client().By(), n, meta)
		waits := p[1].Begin(t.Context(), redlock.Acquire{Token: "w", Wait: time.Minute})
		proxies.Waiting(t, waits)
		if broken, err := p[1].Client().Breaks("job"); err != nil || !broken {
			t.Errorf("BREAK: %v %v", broken, err)
		}
		proxies.Granted(t, waits)
		if got := p[1].Unlock("w"); got != 1 {
			t.Errorf("UNLOCK: %d", got)
		}
		for i := range n {
			p[0].Lock(t.Context(), redlock.Acquire{Token: fmt.Sprint("r", i), Mode: redlock.Read,
				Lease: time.Hour, Meta: meta})
		}
		if r := p[1].Lock(t.Context(), redlock.Acquire{Token: "w", Break: true}); r.Err != nil || !r.OK ||
			p[0].Unlock("r0") != -1 || p[0].Unlock(fmt.Sprint("r", n-1)) != -1 {
			t.Errorf("LOCK with BREAK: %+v", r)
		}
		if got := p[1].Unlock("w"); got != 1 {
			t.Errorf("UNLOCK: %d", got)
		}
		s.Empty(t)
	})
}
