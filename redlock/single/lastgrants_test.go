package single

import (
	"testing"
	"time"

	"lockproxy/internal/resp"
	"lockproxy/redlock"
	"lockproxy/redlock/internal/rig"
	"lockproxy/redlock/scripts"
)

// An UNLOCK says the fence that its hold should have: that of the last grant to the token, or the one that
// its client names; but none if its client has named the request, which may have run through another proxy.
func TestUnlockSaysTheFenceOfItsHold(t *testing.T) {
	e := New(rig.Nothing{}, redlock.NewNames("lock:"), Options{})
	a := &redlock.Acquire{Name: "job", Token: "t", Mode: redlock.Write, Lease: time.Minute, ID: "an id"}
	const want = "1800000000000007"
	for _, reply := range []string{":" + want + "\r\n", "$-1\r\n"} { // granted, and then held by others
		if _, _, err := e.readFirst(a, time.Now(), 0, []byte(reply)); err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			r    redlock.Release
			want string
		}{
			{redlock.Release{Name: "job", Token: "t"}, want},
			{redlock.Release{Name: "job", Token: "t", Fence: 42}, "42"},
			{redlock.Release{Name: "job", Token: "t", Named: "mine"}, ""},
		} {
			_, req, _ := e.releaseRequest(nil, &scripts.Release, &c.r, e.names.NewRequest())
			v, _, err := resp.Parse(req)
			if err != nil {
				t.Fatal(err)
			}
			if got := v.Elems[len(v.Elems)-1].Text(); got != c.want {
				t.Errorf("%+v says %q, want %q", c.r, got, c.want)
			}
		}
	}
}
