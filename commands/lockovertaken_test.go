package commands_test

import (
	"strings"
	"testing"

	"lockproxy/redlock/locks"
)

// A request that a later one of the same proxy and token has overtaken on its way to Redis is made anew,
// once, and its client is told what that has done.
func TestOvertakenRequestsAreMadeAnew(t *testing.T) {
	withLocks(t, locks.Options{}, func(t *testing.T, session func() *client) {
		for _, talk := range []struct {
			holds, slow, fast string
			want              string
			left              int // UNLOCKs that come after it
		}{
			{"", "LOCK job TOKEN t PX 5000 REENTRANT", "LOCK job TOKEN t PX 5000 REENTRANT", "*[t F 5000 2]",
				2},
			{"", "UNLOCK job t", "LOCK job TOKEN t PX 5000", "$nil", 1},
			{"LOCK job TOKEN t PX 5000", "UNLOCK job t", "LOCK job TOKEN t PX 5000 REENTRANT", "0", 1},
			{"RLOCK job TOKEN t PX 5000", "UNLOCK job t", "RLOCK job TOKEN t PX 5000 REENTRANT", "0", 1},
		} {
			slow, fast := session(), session()
			if talk.holds != "" {
				fast.Do(talk.holds)
			}
			tries, node := 0, slow.Masters[0]
			slow.Masters[0] = func(args []string) string {
				if tries++; tries == 1 {
					if got := fast.Do(talk.fast); strings.HasPrefix(got, "-") {
						t.Errorf("%s: %s", talk.fast, got)
					}
				}
				return node(args)
			}
			if got := readable(slow.Do(talk.slow)); got != talk.want {
				t.Errorf("%s, overtaken by %s: %s, want %s", talk.slow, talk.fast, got, talk.want)
			}
			if again := talk.want != "$nil"; again && tries != 2 || !again && tries != 1 {
				t.Errorf("%s, overtaken by %s: it was sent %d times", talk.slow, talk.fast, tries)
			}
			for left := talk.left - 1; left >= 0; left-- {
				want := "0"
				if left == 0 {
					want = "1"
				}
				if got := readable(fast.Do("UNLOCK job t")); got != want {
					t.Errorf("%s, overtaken by %s: UNLOCK, of which %d come after it: %s, want %s", talk.slow,
						talk.fast, left, got, want)
				}
			}
		}
	})
}
