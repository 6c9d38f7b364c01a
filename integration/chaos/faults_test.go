//go:build !quick

package main

import (
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"lockproxy/integration/rig"
)

func TestMain(m *testing.M) {
	redis.SetLogger(quiet{})
	rig.Main(m)
}

// A dose of the faults: nothing that was acknowledged is lost but by Redis itself, nothing runs twice,
// nothing runs of which a client was told that it had not, and every client goes on. R33
func TestFaults(t *testing.T) {
	for _, tt := range []struct {
		name     string
		promoted bool
	}{{"failover", true}, {"kill", true}, {"client-kill", false}, {"slots", false}, {"proxy-rolling",
		false}} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			o, err := parse([]string{"-quick"})
			if err != nil {
				t.Fatal(err)
			}
			o.plan = plan{mixing: 2, pause: 30 * time.Millisecond, visits: 200 * time.Millisecond}
			o.binary, o.patience = rig.Binary, rig.Patience
			f := *faultNamed(tt.name)
			if strike := f.strike; !f.lossy { // then no node may be taken for dead that only had no processor
				f.strike = func(s *scene) { s.cluster.DeadAfter("3600000"); strike(s) }
			}
			r := perform(t.Context(), &f, o)
			t.Logf("seed %d: %s", o.seed, r.words())
			for _, wrong := range r.Wrong {
				t.Errorf("seed %d: %s", o.seed, wrong)
			}
			if r.Skipped != "" || len(r.Ways) != 2 {
				t.Fatalf("seed %d: %d ways; %s", o.seed, len(r.Ways), r.Skipped)
			}
			ours := r.Ways[0]
			if ours.Late > 0 || ours.Acked < 100 || ours.Visits == 0 || (r.Promoted != nil) != tt.promoted {
				t.Errorf("seed %d: %d clients did not go on, %d writes, %d new connections, promotion %v",
					o.seed, ours.Late, ours.Acked, ours.Visits, r.Promoted)
			}
			for kind, n := range ours.Errors {
				t.Logf("%d times %s", n, kind)
				if strings.Contains(kind, "LOADING lockproxy") {
					t.Errorf("a proxy that starts refused a command: %s", kind)
				}
			}
		})
	}
}

// What must not be is found in real servers, too: a key that somebody else removes is a lost write, and one
// that he adds to has run twice.
func TestFaultsAreFound(t *testing.T) {
	t.Parallel()
	o, err := parse([]string{"-quick"})
	if err != nil {
		t.Fatal(err)
	}
	o.plan = plan{mixing: 2, pause: 5 * time.Millisecond}
	o.binary, o.patience = rig.Binary, rig.Patience
	vandal := fault{name: "vandal", title: "somebody meddles", strike: func(s *scene) {
		gone, twice := 0, 0
		rig.Eventually(s, rig.Patience, "there is something to meddle with", func() bool {
			for _, key := range s.master.Do(s, "KEYS", "*").Strings() {
				switch s.master.Do(s, "TYPE", key).Text {
				case "string":
					if s.master.Do(s, "GET", key).Text != "1" && gone < 3 {
						s.master.Do(s, "DEL", key)
						gone++
					}
				case "list":
					if e := s.master.Do(s, "LRANGE", key, "0", "0").Strings(); len(e) == 1 && twice < 3 {
						s.master.Do(s, "RPUSH", key, e[0])
						twice++
					}
				}
			}
			return gone == 3 && twice == 3
		})
	}}
	r := perform(t.Context(), &vandal, o)
	var v verdict
	for _, w := range r.Ways {
		v.add(w.verdict)
	}
	if v.Lost < 3 || v.Doubled < 3 {
		t.Errorf("seed %d: %d lost and %d doubled, of 3 and 3: %s", o.seed, v.Lost, v.Doubled, r.words())
	}
}
