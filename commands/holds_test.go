package commands

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"lockproxy/redlock"
)

// What a connection remembers is bounded, by what it kept.
func TestKeptIsBounded(t *testing.T) {
	withLocks(t, redlock.Options{}, func(t *testing.T, session func() *fakeSession) {
		a, b := session(), session()
		for i := range 10 * firstSweep { // as a pool of connections does
			a.do(fmt.Sprintf("LOCK job%d TOKEN t KEEPALIVE", i))
			b.do(fmt.Sprintf("UNLOCK job%d t", i))
		}
		s := a.client.Kept.keeps
		if n := len(s.holds); n > firstSweep {
			t.Errorf("%d holds are remembered, and none is kept", n)
		}
		for i := range 2 * leastLosses {
			s.tell(2, fmt.Sprintf("lost%d", i%(leastLosses+7)), "t", loss{int64(i + 1), redlock.LossGone})
		}
		if n := len(s.order); n != leastLosses || len(s.lost) > n {
			t.Errorf("%d losses of %d locks are remembered", n, len(s.lost))
		}
		told := 0
		for i := range leastLosses + 7 {
			for a.client.Kept.refuse(fmt.Sprintf("lost%d", i)) != nil {
				told++
			}
		}
		if told != leastLosses || len(s.order) != 0 || len(s.lost) != 0 {
			t.Errorf("%d losses were told, %d are left", told, len(s.order))
		}
	})
}

// One connection keeps as many holds alive as are left for all others: so it never has all that there are.
func TestKeepShare(t *testing.T) {
	withLocks(t, redlock.Options{MaxKept: 6}, func(t *testing.T, session func() *fakeSession) {
		a, b, c := session(), session(), session()
		kept := func(s *fakeSession, name string) string {
			return read(s.do("LOCK " + name + " TOKEN t KEEPALIVE"))
		}
		for _, step := range []struct {
			s       *fakeSession
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
			if !step.granted && (!strings.Contains(got, "lock-max-keepalive") || len(step.s.sent) > 0) {
				t.Errorf("%s: %s, sent %q", step.name, got, step.s.sent)
			}
		}
		if got := read(a.do("RENEW a1 t KEEPALIVE")); strings.HasPrefix(got, "-") {
			t.Errorf("what it keeps alive already: %s", got)
		}
		for _, name := range []string{"a1", "a2", "a3"} {
			b.do("UNLOCK " + name + " t")
		}
		time.Sleep(2 * time.Second)
		if got := kept(a, "a4"); !strings.HasPrefix(got, "*[t ") {
			t.Errorf("when others have unlocked its holds: %s", got)
		}
	})
}
