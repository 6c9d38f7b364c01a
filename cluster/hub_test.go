package cluster

import (
	"context"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// hub is an upstream with subscriptions.
type hub struct {
	*Upstream
	*Subscriptions
}

// Close ends both.
func (h *hub) Close() {
	h.Subscriptions.Close()
	h.Upstream.Close()
}

// subscribing is the upstream at o, with subscriptions, until the test ends.
func subscribing(t *testing.T, o Options) *hub {
	t.Helper()
	return withSubscriptions(t, upstreamAt(t, o))
}

func withSubscriptions(t *testing.T, u *Upstream) *hub {
	s := NewSubscriptions(u, testLog(t))
	u.OnChange(func(*Topology) { s.Moved() })
	t.Cleanup(s.Close)
	return &hub{u, s}
}

// upstreamAt is the upstream at o, which runs until the test ends and leaves
// nothing behind.
func upstreamAt(t *testing.T, o Options) *Upstream {
	t.Helper()
	before := goleak.IgnoreCurrent()
	o.Log = testLog(t)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	u, err := Discover(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	running, stop := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { u.Run(running) })
	t.Cleanup(func() {
		stop()
		wg.Wait()
		goleak.VerifyNone(t, before)
	})
	return u
}
