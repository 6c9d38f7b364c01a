package single

import (
	"context"
	"regexp"
	"slices"
	"strconv"
	"strings"
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

// fenceOf is the key of the fence of a slot.
var fenceOf = regexp.MustCompile(`lock:fence:\{.*\}`)

// releasing is a client that has asked for an UNLOCK.
type releasing struct {
	breaking
	done redlock.Released
	t    *testing.T
	keys []string // of each request
}

func (r *releasing) SendHome(slot int, req []byte, resend bool, to redlock.Exchange, d redlock.Delivery) {
	args := arguments(r.t, req)
	n, _ := strconv.Atoi(args[2])
	keys := strings.Join(args[3:3+n], " ")
	r.keys = append(r.keys, fenceOf.ReplaceAllString(keys, "fence"))
	r.breaking.SendHome(slot, req, resend, to, d)
}

func (r *releasing) Released(done redlock.Released, err error) []byte {
	r.done, r.err = done, err
	return nil
}

// An UNLOCK goes on with the lock as its only key while the slot moves. Before that it looks whether a copy
// of it has run: that answer stands with the fence, and the token may have the lock anew. If it finds
// nothing, it looks once more. R8 R33
func TestUnlockWhileTheSlotMoves(t *testing.T) {
	const moves, null = "-TRYAGAIN Multiple keys request\r\n", "$-1\r\n"
	const lock, both = "lock:{job}", "lock:{job} fence"
	for _, tt := range []struct {
		replies []string
		done    redlock.Released
		keys    []string
	}{
		{[]string{moves, ":1\r\n"}, redlock.Released{Held: true, Whole: true}, []string{both, "fence"}},
		{[]string{moves, null, ":0\r\n"}, redlock.Released{Held: true}, []string{both, "fence", lock}},
		{[]string{moves, null, null, ":1\r\n"}, redlock.Released{Held: true, Whole: true},
			[]string{both, "fence", lock, "fence"}},
		{[]string{moves, null, null, null}, redlock.Released{}, []string{both, "fence", lock, "fence"}},
	} {
		r := &releasing{breaking: breaking{replies: tt.replies, a: &redlock.Acquire{}}, t: t}
		e := New(r, redlock.NewNames("lock:"), Options{})
		e.Release(r, &redlock.Release{Name: "job", Token: "t"}, r)
		wrong := slices.ContainsFunc(r.sent, func(sent string) bool { return sent != "release+" })
		if r.err != nil || r.done != tt.done || !slices.Equal(r.keys, tt.keys) || wrong {
			t.Errorf("%q: %+v %v, sent %v for %q", tt.replies, r.done, r.err, r.sent, r.keys)
		}
		e.Close(t.Context())
	}
}
