//go:build limits

package scripts_test

import (
	"cmp"
	"math"
	"testing"

	"lockproxy/redlock/internal/rig"
)

// No script occupies Redis for long. The bounds are 5 ms on an idle machine, and 3 ms for INFO and BREAK,
// however much META there is. What is measured against is a script that does nothing but call Redis, on the
// same machine at the same time. Of both, the least of several rounds counts, because others may use the
// machine.
func TestLimitLongestScripts(t *testing.T) {
	const measure = "for i = 1, 12000 do redis.call('PING') end"
	s := rig.StartRedis(t)
	l := &teller{t: t, s: s, c: s.Connect()}
	defer l.c.Close()
	all := longScripts(l)
	took, whole := make([]float64, len(all)), math.Inf(1)
	for round := range 40 { // a busy machine is quick at times
		s.Ask("CONFIG", "RESETSTAT")
		s.Ask("EVAL", measure, "0")
		_, usec := spent(t, s)
		whole = min(whole, usec["eval"])
		good := true
		for i, c := range all {
			if round == 0 {
				took[i] = math.Inf(1)
			} else if took[i] <= whole/2 {
				continue
			}
			_, usec := c.spends(t, s)
			took[i] = min(took[i], usec["evalsha"])
			good = good && took[i] <= cmp.Or(c.most, 1.2)*whole
		}
		if good && round >= 3 {
			break
		}
	}
	for i, c := range all {
		t.Logf("%-41s %6.0f us, %.2f of the measure", c.name, took[i], took[i]/whole)
		if most := cmp.Or(c.most, 1.2); took[i] > most*whole {
			t.Errorf("%s: a script of %.1f ms, while 12,000 calls take %.1f ms, and %.1f times that is too "+
				"long", c.name, took[i]/1000, whole/1000, most)
		}
	}
}
