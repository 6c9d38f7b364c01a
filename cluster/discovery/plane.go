package discovery

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"lockproxy/cluster"
)

// controlPlane is what all parts of an Upstream stand on: what is known, and who asks.
type controlPlane struct {
	bulletin
	o       Options
	kind    cluster.Kind // does not change after Find
	asker   *asker
	outages cluster.Outages
	refresh waker // has the topology asked for, by the goroutine of Upstream.Run
}

// Outages are the masters that do not serve now. Pipes note there how commands are affected. They are made
// with the control plane: never nil.
func (c *controlPlane) Outages() *cluster.Outages { return &c.outages }

// Serves says whether any slot has a master that has answered lately. It never blocks. In doubt it still
// counts.
func (c *controlPlane) Serves() bool {
	t := c.Topology()
	return slices.ContainsFunc(t.Masters, func(n *cluster.Node) bool {
		_, lost := c.outages.Of(n.Addr)
		return !lost && t.SlotsOf(n) != ""
	})
}

// Ready says which slots are not served now, and why, one line each; nil: all slots have a master that has
// answered lately. It never blocks.
func (c *controlPlane) Ready() error {
	t := c.Topology()
	var all []error
	if slots := t.SlotsOf(nil); slots != "" {
		all = append(all, fmt.Errorf("cluster: slots %s have no master", slots))
	}
	for _, n := range t.Masters {
		if out, lost := c.outages.Of(n.Addr); lost {
			what := "slots " + t.SlotsOf(n)
			if t.Kind != cluster.Cluster {
				what = "the upstream"
			}
			all = append(all, fmt.Errorf("%w, for %v: %s cannot be served",
				cluster.NodeError{Addr: n.Addr,
					Err: out.Err}, time.Since(out.Since).Round(time.Second), what))
		}
	}
	return errors.Join(all...)
}
