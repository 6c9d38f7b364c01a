package scripts_test

import (
	"testing"

	"lockproxy/redlock/internal/rig"
	"lockproxy/redlock/scripts"
)

// Readers that a proxy of an older version let in are not listed. They count like any others. R28
func TestReadersOfAnOlderVersion(t *testing.T) {
	rig.Everywhere(t, func(t *testing.T, s *rig.Server) {
		l := &teller{t: t, s: s, c: s.Connect()}
		defer l.c.Close()
		must := func(line, want string) {
			t.Helper()
			if got := l.tell(line); got != want && !near(got, want) {
				t.Errorf("%s: %s, want %s", line, got, want)
			}
		}
		older := func() {
			t.Helper()
			must("redis HDEL lock:{job} m m:0", "2")
		}
		must("acquire a i1 r 5000", "[a F1 ~5000 1]")
		must("acquire b i2 r 60000", "[b F2 ~60000 1]")
		older()
		must("acquire c i3 r 5000", "[c F3 ~5000 1]")
		must("acquire c i4 w 5000 P1", "[0 ~60000 *]")
		must("release c u1", "1")
		must("acquire b i5 w 5000 P1", "[0 ~5000 *]")
		must("release a u2 - P1", "1")
		must("acquire b i5 w 5000 P1", "[b F4 ~60000 1]")
		must("release b u3", "1")
		must("exists", "0")

		must("acquire a i6 r 60000", "[a F5 ~60000 1]")
		older()
		must("acquire b i7 r 60000", "[b F6 ~60000 1]")
		if got := len(l.run(scripts.Inspect, []string{rig.LockKey}).Elems); got != 1+2*2 {
			t.Errorf("INFO has %d parts, want the time and two readers", got)
		}
		must("break", "1")
		must("exists", "0")
	})
}
