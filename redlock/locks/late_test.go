package locks_test

import (
	"testing"
	"time"

	"lockproxy/redlock"
	"lockproxy/redlock/internal/proxies"
	"lockproxy/redlock/internal/rig"
)

// An UNLOCK with an ID hangs in one proxy, is sent again through another, and the lock is taken again with
// the same token. When the first copy comes it is known for one that has run. R8 R33
func TestLateReleaseOfAnotherProxy(t *testing.T) {
	rig.Everywhere(t, func(t *testing.T, s *rig.Server) {
		p := proxies.Start(t, s, 2)
		send := func(n *rig.Noted) {
			t.Helper()
			reply, err := p[1].Up.Do(t.Context(), n.Slot, n.Req, true)
			if err != nil {
				t.Fatal(err)
			}
			if n.Then.Answer(reply); !n.Done.Whole || n.Err != nil {
				t.Errorf("UNLOCK: %q", reply)
			}
		}
		for _, mode := range []redlock.Mode{redlock.Write, redlock.Read} {
			ask := redlock.Acquire{Token: "t", Mode: mode, Lease: time.Minute}
			if r := p[0].Lock(t.Context(), ask); !r.OK {
				t.Fatalf("LOCK: %+v", r)
			}
			r := &redlock.Release{Name: "job", Token: "t", Named: "mine" + string(mode)}
			late := rig.NotedRelease(p[0].Locker, r)
			send(rig.NotedRelease(p[1].Locker, r))
			if r := p[1].Lock(t.Context(), ask); !r.OK {
				t.Fatalf("LOCK again: %+v", r)
			}
			send(late)
			if got := p[1].Unlock("t"); got != 1 {
				t.Errorf("the late copy has freed a later grant: UNLOCK %d", got)
			}
		}
		s.Empty(t)
	})
}
