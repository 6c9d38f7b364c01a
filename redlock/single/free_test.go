package single

import (
	"strings"
	"testing"
	"time"

	"lockproxy/internal/resp"
	"lockproxy/redlock"
	"lockproxy/redlock/internal/rig"
)

// arguments are the arguments of a request.
func arguments(t *testing.T, req []byte) (all []string) {
	t.Helper()
	v, _, err := resp.Parse(req)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range v.Elems {
		all = append(all, e.Text())
	}
	return all
}

// An UNLOCK that comes before its LOCK is answered frees the lock as if that were granted. If it is not,
// release.lua decides. An UNLOCK that was sent twice is told that a copy of it has freed the lock only if it
// was granted.
func TestUnlockBehindItsLock(t *testing.T) {
	const null, one, another = "$-1\r\n", ":1\r\n", ":1800000000000007\r\n"
	for name, c := range map[string]struct {
		locked, freed string // replies to the LOCK and to free.lua
		repeated      bool
		released      string // reply to release.lua; "": it is not sent
		fence         bool   // which is told the fence that is meant
		held          bool   // the client's answer
	}{
		"granted as asked":                      {locked: one, freed: one, held: true},
		"with the fence of Redis, then changed": {locked: another, freed: null, released: one, held: true},
		"refused":                               {locked: null, freed: null, released: null},
		"not plain any more":                    {locked: one, freed: null, released: one, held: true},
		"freed by a copy": {locked: one, freed: null, repeated: true, released: null, fence: true,
			held: true},
		"refused, and sent twice": {locked: null, freed: null, repeated: true, released: null},
		"the fence of Redis, and twice": {locked: another, freed: null, repeated: true, released: null,
			fence: true, held: true},
	} {
		t.Run(name, func(t *testing.T) {
			e := New(rig.Nothing{}, redlock.NewNames("lock:"), Options{})
			a := &redlock.Acquire{Name: "job", Token: "t", Mode: redlock.Write, Lease: time.Minute}
			a.ID = e.names.NewID(a)
			locking := rig.NotedAcquire(e, a)
			unlocking := rig.NotedRelease(e, &redlock.Release{Name: "job", Token: "t"})
			asked, freeing := arguments(t, locking.Req), arguments(t, unlocking.Req)
			if value := asked[len(asked)-2]; !strings.HasSuffix(value, freeing[len(freeing)-1]) {
				t.Fatalf("UNLOCK sent %q, want the value %q of the LOCK", freeing, value)
			}
			locking.Then.Answer([]byte(c.locked))
			if c.repeated {
				unlocking.Then.(redlock.Repeater).Repeated()
			}
			unlocking.Req = nil
			unlocking.Then.Answer([]byte(c.freed))
			if c.released != "" {
				args := arguments(t, unlocking.Req)
				if fenced := args[6] != ""; fenced != c.fence {
					t.Errorf("release.lua got %q, want the fence: %v", args, c.fence)
				}
				unlocking.Then.Answer([]byte(c.released))
			} else if unlocking.Req != nil {
				t.Errorf("sent %q too", unlocking.Req)
			}
			if unlocking.Err != nil || unlocking.Done.Held != c.held {
				t.Errorf("%+v %v, want held: %v", unlocking.Done, unlocking.Err, c.held)
			}
		})
	}
}
