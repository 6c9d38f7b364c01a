package pubsub

import (
	"context"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"lockproxy/cluster"
	"lockproxy/cluster/discovery"
	"lockproxy/cluster/internal/servers"
)

// hub is an upstream with subscriptions.
type hub struct {
	*discovery.Upstream
	*Subscriptions
}

// Close ends both.
func (h *hub) Close() {
	h.Subscriptions.Close()
	h.Upstream.Close()
}

// subscribing is the upstream at o, with subscriptions, until the test ends.
func subscribing(t *testing.T, o discovery.Options) *hub {
	t.Helper()
	return withSubscriptions(t, upstreamAt(t, o))
}

func withSubscriptions(t *testing.T, u *discovery.Upstream) *hub {
	s := New(u, servers.Log(t))
	u.OnChange(func(*cluster.Topology) { s.Moved() })
	t.Cleanup(s.Close)
	return &hub{u, s}
}

// upstreamAt is the upstream at o, which runs until the test ends and leaves
// nothing behind.
func upstreamAt(t *testing.T, o discovery.Options) *discovery.Upstream {
	t.Helper()
	before := goleak.IgnoreCurrent()
	o.Log = servers.Log(t)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	u, err := discovery.Find(ctx, o)
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
