package quorum_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"lockproxy/redlock"
	"lockproxy/redlock/internal/rig"
)

// On independent masters INFO and BREAK see all readers too, though so long ones are read in several steps.
// R21 R23 R28
func TestQuorumReadersWithLongMeta(t *testing.T) {
	const n = 450 // three steps
	meta := strings.Repeat("m", 1024)
	atSea(t, 3, 1, func(t *testing.T, s *sea) {
		l := s.proxies[0]
		for i := range n {
			mustLock(t, l, redlock.Acquire{
				Token: fmt.Sprint("r", i), Mode: redlock.Read, Lease: time.Hour, Meta: meta,
			})
		}
		k := &rig.Asker{L: l}
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
		if broken, err := (&rig.Asker{L: l}).Breaks("job"); err != nil || !broken {
			t.Errorf("BREAK: %v %v", broken, err)
		}
		time.Sleep(time.Second)
		if err := s.free(); err != nil {
			t.Error(err)
		}
		if broken, err := (&rig.Asker{L: l}).Breaks("job"); err != nil || broken {
			t.Errorf("BREAK of a free lock: %v %v", broken, err)
		}
	})
}
