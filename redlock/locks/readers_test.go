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

// A lock has only so many readers: one more is refused by name, whether it may wait or not, and so is one
// that has waited for a writer. Who reads already is not, nor is one who comes when another has gone or its
// lease is over. R28 R29
func TestMostReaders(t *testing.T) {
	rig.Everywhere(t, func(t *testing.T, s *rig.Server) {
		p := proxies.Start(t, s, 1, locks.Options{MaxReaders: 3})[0]
		read := func(token string, lease, wait time.Duration) proxies.Result {
			return p.Lock(t.Context(), redlock.Acquire{
				Token: token, Mode: redlock.Read, Lease: lease, Wait: wait,
			})
		}
		full := func(r proxies.Result) {
			t.Helper()
			if r.OK || r.Err == nil ||
				!strings.HasPrefix(r.Err.Error(), "QUEUEFULL 3 clients share this lock already") ||
				!redlock.Refused(r.Err) {
				t.Errorf("one reader more: %+v", r)
			}
		}
		for i := range 3 {
			if r := read(fmt.Sprint("r", i), time.Minute, 0); !r.OK {
				t.Fatalf("reader %d: %+v", i, r)
			}
		}
		full(read("more", time.Minute, 0))
		full(read("more", time.Minute, time.Minute))
		if r := read("r1", time.Minute, 0); !r.OK {
			t.Errorf("a reader, again: %+v", r)
		}
		if got := p.Unlock("r1"); got != 1 {
			t.Errorf("UNLOCK: %d", got)
		}
		if r := read("short", 3*time.Second, 0); !r.OK {
			t.Errorf("in the place of one that has gone: %+v", r)
		}
		if s.Mini != nil { // a real Redis may stand still until the lease is over
			full(read("more", time.Minute, 0))
		}
		// its lease is over, and they have not been looked at for a second
		time.Sleep(4100 * time.Millisecond)
		if r := read("more", time.Minute, 0); !r.OK {
			t.Errorf("in the place of one whose lease is over: %+v", r)
		}
		full(read("yet more", time.Minute, 0))
		for _, token := range []string{"r0", "r2", "more"} {
			if got := p.Unlock(token); got != 1 {
				t.Errorf("UNLOCK %s: %d", token, got)
			}
		}
		if keys := s.Keys(); len(keys) != 0 {
			t.Errorf("left: %v", keys)
		}
	})
}
