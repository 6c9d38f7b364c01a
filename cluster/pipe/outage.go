package pipe

import (
	"time"

	"lockproxy/cluster"
)

// This file is about requests to a node that has been down for longer than their budget. Waiting for its
// fail-over is of no use any more, so they wait only briefly. But each has its node dialled, or asked, so
// the first request that can be served is served.

const (
	// brief is how long a request waits for a node whose outage has lasted longer than the budget. It is
	// enough for several dials (redialAfter).
	brief = 200 * time.Millisecond
	// hung is how long a node owes a reply before requests stay behind, if it is down.
	hung = time.Second
)

// witness tells which masters are down. An Upstream is one.
type witness interface{ Outages() *cluster.Outages }

// outages tells which nodes have been down for longer than the budget.
type outages struct {
	*cluster.Outages // nil: nobody knows
	budget           time.Duration
	*routing
}

func newOutages(control Control, budget time.Duration, r *routing) outages {
	o := outages{budget: budget, routing: r}
	if w, ok := control.(witness); ok {
		o.Outages = w.Outages()
	}
	return o
}

// long reports the outage of addr if it has lasted longer than the budget.
func (o *outages) long(addr string) (cluster.Outage, bool) {
	out, lost := o.Of(addr)
	return out, lost && time.Since(out.Since) > o.budget
}

// longAt says that the outage of the master of slot has lasted longer than the budget. If slot stands for
// any master, it says that of all of them.
func (o *outages) longAt(slot int, addr string) bool {
	switch {
	case slot == thisNode:
	case slot >= 0:
		addr = ""
		if i := o.index[slot]; i >= 0 {
			addr = o.topology.Masters[i].Addr
		}
	default:
		for _, n := range o.topology.Masters {
			if _, long := o.long(n.Addr); !long {
				return false
			}
		}
		return len(o.topology.Masters) > 0
	}
	_, long := o.long(addr)
	return long
}

// expired says that a request has waited as long as it may. long caches the results of longAt in this round.
func (o *outages) expired(d *deferred, now time.Duration, long map[nodeSlot]bool) bool {
	switch {
	case now > d.deadline:
		return true
	case d.ran, now < d.deadline-o.budget+brief:
		return false
	}
	key := nodeSlot{d.slot, d.addr}
	is, known := long[key]
	if !known {
		is = o.longAt(int(d.slot), d.addr)
		long[key] = is
	}
	return is
}

// nodeSlot is where a request goes.
type nodeSlot struct {
	slot int16
	addr string
}

// BudgetOf is how long a request for the slot may be sent again and again while nodes fail over. It is short
// if the master has been down for long.
func (p *Pool) BudgetOf(slot int) time.Duration {
	if p.outages.longAt(slot, "") {
		return min(brief, p.o.Budget)
	}
	return p.o.Budget
}

// hang says why a request should not wait in p, or returns nil. The reason: its node has been down for long,
// and is not connected or owes replies. It has the node dialled.
func (o *outages) hang(p *Pipe) (why error) {
	if p.owner != nil || p.conn != nil && (p.calls.len() == 0 || p.pool.loop.Now().Sub(p.progress) < hung) {
		return nil
	}
	out, long := o.long(p.addr)
	if !long {
		return nil
	}
	if p.conn == nil && !p.dialing {
		p.dial()
	}
	return cluster.NodeError{Addr: p.addr, Err: out.Err}
}
