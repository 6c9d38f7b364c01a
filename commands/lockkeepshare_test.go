package commands_test

import (
	"strings"
	"testing"
	"time"

	"lockproxy/redlock/locks"
)

// One connection keeps as many holds alive as are left for all others: so it never has all that there are.
func TestKeepShare(t *testing.T) {
	withLocks(t, locks.Options{MaxKept: 6},
		func(t *testing.T, session func() *client) {
			a, b, c := session(), session(), session()
			kept := func(s *client, name string) string {
				return readable(s.Do("LOCK " + name + " TOKEN t KEEPALIVE"))
			}
			for _, step := range []struct {
				s       *client
				name    string
				granted bool
			}{
				{a, "a1", true}, {a, "a2", true}, {a, "a3", true}, {a, "a4", false},
				{b, "b1", true}, {b, "b2", true}, {b, "b3", false}, {c, "c1", true}, {c, "c2", false},
			} {
				got := kept(step.s, step.name)
				if strings.HasPrefix(got, "*[t ") != step.granted {
					t.Errorf("%s: %s", step.name, got)
				}
				if !step.granted && (!strings.Contains(got, "lock-max-keepalive") || len(step.s.Sent) > 0) {
					t.Errorf("%s: %s, sent %q", step.name, got, step.s.Sent)
				}
			}
			if got := readable(a.Do("RENEW a1 t KEEPALIVE")); strings.HasPrefix(got, "-") {
				t.Errorf("what it keeps alive already: %s", got)
			}
			for _, name := range []string{"a1", "a2", "a3"} {
				b.Do("UNLOCK " + name + " t")
			}
			time.Sleep(2 * time.Second)
			if got := kept(a, "a4"); !strings.HasPrefix(got, "*[t ") {
				t.Errorf("when others have unlocked its holds: %s", got)
			}
		})
}
