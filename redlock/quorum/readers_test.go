package quorum_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"lockproxy/redlock"
	"lockproxy/redlock/internal/proxies"
	"lockproxy/redlock/internal/rig"
)

// On independent masters INFO and BREAK see all readers too, though so long ones are read in several steps.
// R21 R23 R28
func TestQuorumReadersWithLongMeta(t *testing.T) {
	const n = 450 // three steps
	meta := strings.Repeat("m", 1024)
	onNetwork(t, 3, 1, func(t *testing.T, s *network) {
		l := s.proxies[0]
		for i := range n {
			mustLock(t, l, redlock.Acquire{
				Token: fmt.Sprint("r", i), Mode: redlock.Read, Lease: time.Hour, Meta: meta,
			})
		}
		proxies.SeeReaders(t, l, (&rig.Asker{L: l}).By(), n, meta)
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
