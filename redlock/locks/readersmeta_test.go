package locks_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"lockproxy/redlock"
	"lockproxy/redlock/internal/proxies"
	"lockproxy/redlock/internal/rig"
	"lockproxy/redlock/locks"
)

// INFO tells of all readers, and BREAK ends all their holds, though so long ones are read in several steps.
// Who waits gets the lock when the last one has gone. R21 R23 R28
func TestReadersWithLongMeta(t *testing.T) {
	const n = 450 // three steps
	meta := strings.Repeat("m", 1024)
	look := func(t *testing.T, l *locks.Locker, k *rig.Asker) {
		t.Helper()
		for _, of := range []string{"", "r7"} {
			l.Inspect(k, "job", of, func(s redlock.State, err error) []byte {
				if want := map[string]int{"": n, "r7": 1}[of]; err != nil || len(s.Holders) != want {
					t.Errorf("%q sees %d readers, want %d: %v", of, len(s.Holders), want, err)
				}
				if h := s.Held("r7"); h == nil || h.Meta != meta {
					t.Errorf("%q does not see r7", of)
				}
				return nil
			})
		}
		if all, err := l.List(t.Context(), "job", 2); err != nil || len(all) != 1 ||
			len(all[0].State.Holders) != n {
			t.Errorf("LIST sees %d locks: %v", len(all), err)
		}
	}
	rig.Everywhere(t, func(t *testing.T, s *rig.Server) {
		p := proxies.Start(t, s, 2)
		for i := range n {
			if r := p[0].Lock(t.Context(),
				redlock.Acquire{Token: fmt.Sprint("r", i), Mode: redlock.Read, Lease: time.Hour,
					Meta: meta}); !r.OK {
				t.Fatalf("reader %d: %+v", i, r)
			}
		}
		look(t, p[1].Locker, p[1].Client())
		waits := p[1].Begin(t.Context(), redlock.Acquire{Token: "w", Wait: time.Minute})
		proxies.Waiting(t, waits)
		if broken, err := p[1].Client().Breaks("job"); err != nil || !broken {
			t.Errorf("BREAK: %v %v", broken, err)
		}
		proxies.Granted(t, waits)
		if got := p[1].Unlock("w"); got != 1 {
			t.Errorf("UNLOCK: %d", got)
		}
		s.Empty(t)
	})
}
