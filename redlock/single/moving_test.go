package single

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"lockproxy/redlock"
	"lockproxy/redlock/internal/rig"
)

// astray is a slot that moves. The request for a lock was sent on from one node to the next, and granted
// there; asked once more, the lock says what again is.
type astray struct {
	rig.Nothing
	moved bool
	again string
	asked *int
	at    time.Time
}

func (s astray) DoWhole(context.Context, int, []byte, bool) ([]byte, error) {
	*s.asked++
	if *s.asked > 1 {
		return []byte(s.again), nil
	}
	return []byte(granted), nil
}

func (s astray) Parted(int) time.Time {
	if s.moved {
		return s.at
	}
	return s.at.Add(-time.Millisecond)
}

const granted = "*4\r\n$33\r\n#0123456789abcdef0123456789abcdef\r\n:1795446905801293\r\n:1000\r\n:1\r\n"

// A request that was sent on while its slot moved may have met a copy of the lock that nobody else sees: it
// counts if it is granted once more. R29
func TestGrantOfAStrayedRequest(t *testing.T) {
	for _, tt := range []struct {
		name  string
		moved bool
		again string
		ok    bool
		asked int
	}{
		{"the slot does not move", false, "", true, 1},
		{"confirmed", true, granted, true, 2},
		{"somebody else has the lock", true, "_\r\n", false, 2},
	} {
		synctest.Test(t, func(t *testing.T) {
			asked := 0
			names := redlock.NewNames("lock:")
			u := astray{moved: tt.moved, again: tt.again, asked: &asked, at: time.Now()}
			e := New(u, names, Options{})
			defer e.Close(t.Context())
			a := &redlock.Acquire{
				Name: "job", Token: redlock.NewToken(), Mode: redlock.Write, Lease: time.Second,
			}
			a.ID = names.NewID(a)
			g, ok, err := e.Attempt(t.Context(), a)
			if ok != tt.ok || err != nil || asked != tt.asked || ok && g.Fence != 1795446905801293 {
				t.Errorf("%s: %+v %v %v, the lock was asked %d times", tt.name, g, ok, err, asked)
			}
		})
	}
}

// releasing is a client that has asked for an UNLOCK.
type releasing struct {
	breaking
	done redlock.Released
}

func (r *releasing) Released(done redlock.Released, err error) []byte {
	r.done, r.err = done, err
	return nil
}

// An UNLOCK goes on with the lock as its only key while the slot moves. If it finds nothing then, it may have
// come before that: the answer stands with the fence. R33
func TestUnlockWhileTheSlotMoves(t *testing.T) {
	moves := "-TRYAGAIN Multiple keys request\r\n"
	for _, tt := range []struct {
		replies []string
		done    redlock.Released
		sent    []string
	}{
		{[]string{moves, ":1\r\n"}, redlock.Released{Held: true, Whole: true},
			[]string{"release+", "release+"}},
		{[]string{moves, "$-1\r\n", ":0\r\n"}, redlock.Released{Held: true},
			[]string{"release+", "release+", "release+"}},
		{[]string{moves, "$-1\r\n", "$-1\r\n"}, redlock.Released{},
			[]string{"release+", "release+", "release+"}},
	} {
		r := &releasing{breaking: breaking{replies: tt.replies, a: &redlock.Acquire{}}}
		e := New(r, redlock.NewNames("lock:"), Options{})
		e.Release(r, &redlock.Release{Name: "job", Token: "t"}, r)
		if r.err != nil || r.done != tt.done || !slices.Equal(r.sent, tt.sent) {
			t.Errorf("%q: %+v %v, sent %v", tt.replies, r.done, r.err, r.sent)
		}
		e.Close(t.Context())
	}
}
