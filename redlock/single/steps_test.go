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
