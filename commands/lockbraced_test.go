package commands_test

import (
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"
)

// A name in braces is the lock of that name without them, also where a prefix says who keeps it. R27
func TestPrefixOfANameInBraces(t *testing.T) {
	withQuorum(t, func(t *testing.T, _ *miniredis.Miniredis, session func() *client) {
		a, b := session(), session()
		begins(t, a, "LOCK pay:1 TOKEN t", "*[t ")
		if got := readable(b.Do("LOCK {pay:1} TOKEN u")); got != "$nil" {
			t.Errorf("pay:1 is held, and {pay:1}: %s", got)
		}
		begins(t, a, "LOCK {pay:2} TOKEN t", "*[t ")
		for _, list := range []string{"LOCKCTL LIST", "LOCKCTL LIST SCAN"} {
			if got := readable(b.Do(list)); !strings.Contains(got, "name pay:2 ") {
				t.Errorf("%s lacks what is held: %s", list, got)
			}
		}
	})
}
