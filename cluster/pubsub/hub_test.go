package pubsub

import (
	"testing"

	"lockproxy/cluster"
	"lockproxy/cluster/discovery"
	"lockproxy/cluster/internal/servers"
	"lockproxy/cluster/internal/upstream"
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
	return withSubscriptions(t, upstream.Find(t, o))
}

func withSubscriptions(t *testing.T, u *discovery.Upstream) *hub {
	s := New(u, servers.Log(t))
	u.OnChange(func(*cluster.Topology) { s.Moved() })
	t.Cleanup(s.Close)
	return &hub{u, s}
}
