package redlock

import (
	"testing"
	"time"
)

// An UNLOCK with an ID hangs in one proxy, is sent again through another, and the lock is taken again with the same
// token. When the first copy comes it is known for one that has run. R8 R33
func TestLateReleaseOfAnotherProxy(t *testing.T) {
	everywhere(t, func(t *testing.T, s *server) {
		p := s.proxies(t, 2)
		send := func(n *noted) {
			t.Helper()
			reply, err := p[1].up.Do(t.Context(), n.slot, n.req, true)
			if err != nil {
				t.Fatal(err)
			}
			if n.then.Answer(reply); !n.released.Whole || n.err != nil {
				t.Errorf("UNLOCK: %q", reply)
			}
		}
		for _, mode := range []Mode{Write, Read} {
			ask := Acquire{Token: "t", Mode: mode, Lease: time.Minute}
			if r := p[0].lock(t.Context(), ask); !r.ok {
				t.Fatalf("LOCK: %+v", r)
			}
			r := &Release{Name: "job", Token: "t", Named: "mine" + string(mode)}
			late := notedRelease(p[0].Locker, r)
			send(notedRelease(p[1].Locker, r))
			if r := p[1].lock(t.Context(), ask); !r.ok {
				t.Fatalf("LOCK again: %+v", r)
			}
			send(late)
			if got := p[1].unlock("t"); got != 1 {
				t.Errorf("the late copy has freed a later grant: UNLOCK %d", got)
			}
		}
		s.empty(t)
	})
}
