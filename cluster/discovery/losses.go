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

// noteLost notes that a master of t does not serve. addr "" stands for the slots that nobody has. Outages
// know it at once, the log at most each ten seconds. Like all of this file it is for the goroutine of
// runPulse.
func (p *pulse) noteLost(t *cluster.Topology, addr string, err error) {
	first, still := "node lost", "node is still lost"
	if addr == "" {
		first, still = "slots have no master", "slots still have no master"
	}
	p.outages.Lose(addr, err)
	switch w := p.watchedAt(addr); {
	case !w.away:
		w.away = true
	case time.Since(w.said) < reminder:
		return
	default:
		first = still
	}
	out, _ := p.outages.Of(addr)
	p.logNode(slog.LevelWarn, first, addr, out.Since, p.outages.Felt(addr), "slots",
		t.SlotsOf(t.Master(addr)), "err", cluster.Explain(err))
}

// noteServing notes that a master serves. It reports whether it did not before. What was felt of it is told
// in the same line, and begins anew.
func (p *pulse) noteServing(addr string) (again bool) {
	felt := p.outages.Felt(addr)
	out, was := p.outages.End(addr)
	w := p.watchedAt(addr)
	switch {
	case was && !w.away: // it only said that the cluster has failed, which is one line for all nodes
		p.felt = p.felt.Plus(felt)
	case was && addr == "":
		p.logNode(slog.LevelInfo, "all slots have a master", addr, out.Since, felt)
	case was:
		p.logNode(slog.LevelInfo, "node is back", addr, out.Since, felt)
	case felt.Connections > 0: // it serves, but the data plane had trouble with it
		if time.Since(w.said) < reminder {
			return false
		}
		p.logNode(slog.LevelWarn, "connections to node failed", addr, felt.Since, felt,
			"connections", felt.Connections, "err", cluster.Explain(felt.Err))
	}
	w.away = false
	p.outages.Forget(addr)
	return was
}

// noteClusterFails notes which nodes say that the cluster has failed. When it has, all of them say so; that
// is one outage. nodes are addresses. Without any it is over, and p.felt has been told.
func (p *pulse) noteClusterFails(nodes []string) {
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
		p.logNode(slog.LevelWarn, "the cluster is down", clusterName, p.fails, felt, "nodes", len(nodes),
			"err", cluster.ErrFails)
	case len(nodes) > 0 && time.Since(p.watchedAt(clusterName).said) >= reminder:
		p.logNode(slog.LevelWarn, "the cluster is still down", clusterName, p.fails, felt,
			"nodes", len(nodes), "err", cluster.ErrFails)
	case len(nodes) == 0 && !p.fails.IsZero():
		p.logNode(slog.LevelInfo, "the cluster is up again", clusterName, p.fails, felt)
		p.fails = time.Time{}
	}
}

// clusterName stands for the cluster in place of an address.
const clusterName = "cluster"

// logSuccessors logs masters that are masters no more, and their successors. Their outages end here, for
// nobody asks them any more. p.seen is the topology in which they had slots.
func (p *pulse) logSuccessors(t *cluster.Topology) {
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
				p.logNode(slog.LevelInfo, "slots have a new master", successor.Addr, out.Since, felt,
					"replaces", addr,
					"slots", p.seen.SlotsOf(n))
				break
			}
		}
	}
	// If one became a master again, and was lost again, what is remembered would keep the log from saying so.
	maps.DeleteFunc(p.watched, func(addr string, _ *watched) bool {
		return addr != "" && addr != clusterName && t.Master(addr) == nil
	})
}

// logNode logs something about the node at addr, with the time since when it is so, and its effects on
// commands. "for" is how long it has lasted, "after" how long it did.
func (p *pulse) logNode(level slog.Level, text, addr string, since time.Time, felt cluster.Felt,
	more ...any) {
	p.watchedAt(addr).said = time.Now()
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
