package proxy

import (
	"context"
	"errors"
	"testing"
	"time"
)

// late is an upstream whose master does not tell its commands at first.
type late struct {
	Upstream
	fails, asked int
}

func (u *late) Command(ctx context.Context) ([]byte, error) {
	if u.asked++; u.asked <= u.fails {
		return nil, errors.New("i/o timeout")
	}
	return u.Upstream.Command(ctx)
}

// TestCommandsComeLate proves that a proxy whose upstream is slow to answer starts all the
// same, and that one whose upstream never does ends with the reason.
func TestCommandsComeLate(t *testing.T) {
	inBubble(t, 1, Options{}, nil, func(r *rig) {
		for _, c := range []struct {
			fails int
			ok    bool
		}{{0, true}, {3, true}, {100, true}} {
			u := &late{Upstream: r, fails: c.fails}
			s, err := New(r.Context(), Options{Upstream: u, PubSub: r, Portable: true, Loops: 1})
			if (err == nil) != c.ok || u.asked != c.fails+1 {
				t.Errorf("after %d failures: asked %d times, %v", c.fails, u.asked, err)
			}
			if err == nil {
				s.Drain(r.Context())
			}
		}
		ctx, cancel := context.WithTimeout(r.Context(), time.Second)
		defer cancel()
		start := time.Now()
		if _, err := New(ctx, Options{Upstream: &late{Upstream: r, fails: 100}, PubSub: r, Portable: true,
			Loops: 1}); err == nil || time.Since(start) > time.Second {
			t.Errorf("with a second of time: %v after %v", err, time.Since(start))
		}
	})
}
