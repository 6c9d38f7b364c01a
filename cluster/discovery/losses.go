package discovery

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"time"

	"lockproxy/cluster"
)

// This file logs masters that do not serve: one line when a master is lost, then one every ten seconds, and
// one at the end, with the effects on commands. All that connections of the data plane report about one node
// is one line too.

var errUnserved = errors.New("no node has these slots (redis-cli --cluster check, then fix)")

// lost notes that a master of t does not serve.
func (p *pulse) lost(t *cluster.Topology, addr string, err error) {
	first, still := "node lost", "node is still lost"
	if addr == "" {
		first, still = "slots have no master", "slots still have no master"
	}
	p.outages.Lose(addr, err)
	switch w := p.of(addr); {
	case !w.away:
		w.away = true
	case time.Since(w.said) < reminder:
		return
	default:
		first = still
	}
	out, _ := p.outages.Of(addr)
	p.tell(slog.LevelWarn, first, addr, out.Since, p.outages.Felt(addr), "slots",
		t.SlotsOf(t.Master(addr)), "err", cluster.Explain(err))
}

// serves notes that a master serves. It reports whether it did not before.
func (p *pulse) serves(addr string) (again bool) {
	felt := p.outages.Felt(addr)
	out, was := p.outages.End(addr)
	w := p.of(addr)
	switch {
	case was && !w.away: // it only said that the cluster has failed, which is one line for all nodes
		p.felt = p.felt.Plus(felt)
	case was && addr == "":
		p.tell(slog.LevelInfo, "all slots have a master", addr, out.Since, felt)
	case was:
		p.tell(slog.LevelInfo, "node is back", addr, out.Since, felt)
	case felt.Connections > 0:
		if time.Since(w.said) < reminder {
			return false
		}
		p.tell(slog.LevelWarn, "connections to node failed", addr, felt.Since, felt,
			"connections", felt.Connections, "err", cluster.Explain(felt.Err))
	}
	w.away = false
	p.outages.Forget(addr)
	return was
}

// clusterFails notes which nodes say that the cluster has failed. When it has, all of them say so; that is
// one outage.
func (p *pulse) clusterFails(nodes []string) {
	felt := p.felt
	for _, addr := range nodes {
		felt = felt.Plus(p.outages.Felt(addr))
	}
	if len(nodes) == 0 {
		p.felt = cluster.Felt{}
	}
	switch {
	case len(nodes) > 0 && p.fails.IsZero():
		p.fails = time.Now()
		p.tell(slog.LevelWarn, "the cluster is down", clusterName, p.fails, felt, "nodes", len(nodes),
			"err", cluster.ErrFails)
	case len(nodes) > 0 && time.Since(p.of(clusterName).said) >= reminder:
		p.tell(slog.LevelWarn, "the cluster is still down", clusterName, p.fails, felt, "nodes", len(nodes),
			"err", cluster.ErrFails)
	case len(nodes) == 0 && !p.fails.IsZero():
		p.tell(slog.LevelInfo, "the cluster is up again", clusterName, p.fails, felt)
		p.fails = time.Time{}
	}
}

// clusterName stands for the cluster in place of an address.
const clusterName = "cluster"

// followed logs masters that are masters no more, and their successors.
func (p *pulse) followed(t *cluster.Topology) {
	for _, addr := range p.outages.Addrs() {
		if addr == "" || t.Master(addr) != nil {
			continue
		}
		felt := p.outages.Felt(addr)
		p.outages.Forget(addr)
		out, was := p.outages.End(addr)
		if !was {
			out.Since = felt.Since
		}
		for s, n := range p.seen.Slots {
			if successor := t.Slots[s]; n != nil && n.Addr == addr && successor != nil && successor != n {
				p.tell(slog.LevelInfo, "slots have a new master", successor.Addr, out.Since, felt,
					"replaces", addr,
					"slots", p.seen.SlotsOf(n))
				break
			}
		}
	}
	maps.DeleteFunc(p.watched, func(addr string, _ *watched) bool {
		return addr != "" && addr != clusterName && t.Master(addr) == nil
	})
}

// tell logs something about the node at addr, with the time since when it is so, and its effects on
// commands.
func (p *pulse) tell(level slog.Level, text, addr string, since time.Time, felt cluster.Felt, more ...any) {
	p.of(addr).said = time.Now()
	how := "for"
	if level == slog.LevelInfo {
		how = "after" // it is over
	}
	attributes := []any{how, time.Since(since).Round(time.Millisecond), "delayed", felt.Delayed,
		"failed", felt.Failed}
	if addr != "" && addr != clusterName {
		attributes = append([]any{"node", addr}, attributes...)
	}
	p.o.Log.Log(context.Background(), level, text, append(attributes, more...)...)
}
