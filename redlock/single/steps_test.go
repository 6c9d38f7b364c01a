package single

import (
	"bytes"
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"lockproxy/redlock"
	"lockproxy/redlock/internal/rig"
	"lockproxy/redlock/scripts"
)

// slowFence is a slot that moves, whose fence takes a while to draw.
type slowFence struct {
	rig.Nothing
	takes time.Duration
}

func (s slowFence) Do(_ context.Context, _ int, req []byte, _ bool) ([]byte, error) {
	switch {
	case bytes.Contains(req, []byte(scripts.Draw.SHA)):
		time.Sleep(s.takes)
		return []byte(":1795446905801293\r\n"), nil
	case bytes.Contains(req, []byte(scripts.Number.SHA)):
		return []byte(":1\r\n"), nil
	}
	return fmt.Appendf(nil, "*4\r\n$33\r\n%s\r\n:%d\r\n:1000\r\n:1\r\n", redlock.OwnerOf(redlock.NewToken()),
		1_123456_000000), nil
}

// The lease of a grant in steps begins with the first of them, so the client is told what is left after the
// last one. R13
func TestLeaseInSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		names := redlock.NewNames("lock:")
		e := New(slowFence{takes: 400 * time.Millisecond}, names, Options{})
		defer e.Close(t.Context())
		a := &redlock.Acquire{Name: "job", Token: redlock.NewToken(), Mode: redlock.Write, Lease: time.Second}
		a.ID = names.NewID(a)
		g, ok, err := e.steps.acquire(a)
		if !ok || err != nil || g.TTL != 600*time.Millisecond || !g.At.Equal(time.Now()) {
			t.Errorf("after 400 of 1000 ms: %+v %v %v", g, ok, err)
		}
		e = New(slowFence{takes: 2 * time.Second}, names, Options{})
		defer e.Close(t.Context())
		if g, ok, err = e.steps.acquire(a); ok || err == nil {
			t.Errorf("a lease that is over by then: %+v %v %v", g, ok, err)
		}
	})
}

// strayed is a slot that moves. The request for a lock was sent on from one node to the next, and granted
// there; the lock itself says what alone is.
type strayed struct {
	rig.Nothing
	moved bool
	alone string
	asked *int // how often the lock itself was asked
	at    time.Time
}

func (s strayed) Do(_ context.Context, _ int, req []byte, _ bool) ([]byte, error) {
	if !bytes.Contains(req, []byte("lock:fence")) {
		*s.asked++
		return []byte(s.alone), nil
	}
	return []byte(granted), nil
}

func (s strayed) Parted(int) time.Time {
	if s.moved {
		return s.at
	}
	return s.at.Add(-time.Millisecond)
}

const granted = "*4\r\n$33\r\n#0123456789abcdef0123456789abcdef\r\n:1795446905801293\r\n:1000\r\n:1\r\n"

// A request that was sent on while its slot moved may have met a copy of the lock that nobody else sees: it
// counts if the lock itself confirms it. R29
func TestGrantOfAStrayedRequest(t *testing.T) {
	for _, tt := range []struct {
		name  string
		moved bool
		alone string
		ok    bool
		asked int
	}{
		{"the slot does not move", false, "", true, 0},
		{"confirmed", true, granted, true, 1},
		{"somebody else has the lock", true, "_\r\n", false, 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			asked := 0
			names := redlock.NewNames("lock:")
			u := strayed{moved: tt.moved, alone: tt.alone, asked: &asked, at: time.Now()}
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
