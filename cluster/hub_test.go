package cluster

import "testing"

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
	return withSubscriptions(t, discovered(t, o))
}

func withSubscriptions(t *testing.T, u *Upstream) *hub {
	s := NewSubscriptions(u, testLog(t))
	u.OnChange(func(*Topology) { s.Moved() })
	t.Cleanup(s.Close)
	return &hub{u, s}
}
