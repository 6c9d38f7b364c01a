package pipe

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"lockproxy/cluster"
	"lockproxy/cluster/pipe/owned"
)

// This file says for how long a request is tried. The time in which nobody could run it does not count:
//
//	its shard has no master that answers   until it has one
//	it has one                             Options.Budget, since that answers, or the request came
//	in any case                            Options.MaxWait, since the request came
//
// Once a shard has been without a master for MaxWait, waiting is of no use any more, so requests wait only
// briefly; in a cluster after the Budget already, if there is no replica to take over. But each has its node
// dialled, or asked, so the first request that can be served is served.

const (
	// brief is how long a request waits for a shard that has been without a master for MaxWait. It is enough
	// for several dials (redialAfter).
	brief = 200 * time.Millisecond
	// hung is how long a node owes a reply before requests stay behind, if it is down.
	hung = time.Second
	// holdAfter is how long a node has been in doubt before requests stay behind: what is written to a node
	// that hangs may run, and must not be sent again.
	holdAfter = 500 * time.Millisecond
)

// witness tells which masters are down. An Upstream is one.
type witness interface{ Outages() *cluster.Outages }

// outages tells which shards have a master that answers.
type outages struct {
	known *cluster.Outages // nil: nobody knows, and all masters are taken to answer
	*env
	gained map[string]time.Duration // when a master got slots last, since born
	*routing
}

func newOutages(e *env, r *routing) outages {
	o := outages{env: e, routing: r, gained: make(map[string]time.Duration)}
	if w, ok := e.control.(witness); ok {
		o.known = w.Outages()
	}
	e.felt = o.known
	return o
}

// follow notes which masters have got slots that they did not have before.
func (o *outages) follow(before *cluster.Topology, now time.Duration) {
	if before == nil {
		return
	}
	gained := make(map[string]time.Duration, len(o.topology.Masters))
	for _, n := range o.topology.Masters {
		gained[n.Addr] = o.gained[n.Addr]
	}
	for s, n := range o.topology.Slots {
		if was := before.Slots[s]; n != nil && (was == nil || was.Addr != n.Addr) {
			gained[n.Addr] = now
		}
	}
	o.gained = gained
}

// leave gives up pipes whose nodes have left the topology and do not answer: what they owe can come from
// elsewhere. The others may still answer, for a while.
func (o *outages) leave(shared map[nodeKey]*Pipe, own map[*Pipe]struct{}) {
	for _, pipe := range slices.AppendSeq(slices.Collect(maps.Values(shared)), maps.Keys(own)) {
		_, doubted := o.known.Doubted(pipe.addr)
		switch {
		case pipe.retired.IsZero(), !doubted && !pipe.dialing:
		case pipe.Conn != nil:
			pipe.Close(owned.ErrRetired)
		case pipe.dialing:
			pipe.cancel()
		case pipe.calls.len() > 0:
			pipe.hangUp(owned.ErrRetired)
		}
	}
}

// shard is what is known of the master that a request is for.
type shard struct {
	answers bool
	since   time.Duration // it has answered since then, counted from the birth of the pool
	long    bool          // there has been none for so long that waiting is of no use
}

// long reports the outage of addr if it has lasted for MaxWait, or for the budget where nobody can take over:
// a master of a cluster that has no replica is back soon, or not for long. So it is with slots of nobody. But
// one that says it loads its data, or misses other masters, is waited for.
func (o *outages) long(addr string) (cluster.Outage, bool) {
	out, lost := o.known.Of(addr)
	if !lost {
		return out, false
	}
	most, t := o.o.MaxWait, o.topology
	_, answers := out.Err.(cluster.Unready)
	follows := func(n *cluster.Node) bool { return n.Follows == addr }
	if t.Kind == cluster.Cluster && !answers && !slices.ContainsFunc(t.Replicas, follows) {
		most = min(most, o.o.Budget)
	}
	return out, time.Since(out.Since) > most
}

// masterAt is what is known of the master at addr.
func (o *outages) masterAt(addr string) shard {
	back, answers := o.known.Answers(addr)
	_, long := o.long(addr)
	s := shard{answers: answers, since: o.gained[addr], long: long}
	if !back.IsZero() {
		s.since = max(s.since, back.Sub(o.born))
	}
	return s
}

// shardOf is the shard of slot, or the node at addr. If slot stands for any master, it is the one that has
// answered for the longest time.
func (o *outages) shardOf(slot int, addr string) shard {
	switch {
	case slot == thisNode:
		return o.masterAt(addr)
	case slot >= 0 && o.index[slot] >= 0:
		return o.masterAt(o.topology.Masters[o.index[slot]].Addr)
	case slot >= 0, len(o.topology.Masters) == 0:
		_, long := o.long("")
		return shard{long: long}
	}
	best := shard{long: true}
	for _, n := range o.topology.Masters {
		s := o.masterAt(n.Addr)
		if s.answers && (!best.answers || s.since < best.since) {
			best = s
		} else if !best.answers {
			best.long = best.long && s.long
		}
	}
	return best
}

// left is for how long a request for the shard that came at that time is tried still, as far as anybody knows
// now. It is less than 0 when that time is over.
func (o *outages) left(s shard, came, now time.Duration) time.Duration {
	left := came + o.o.MaxWait - now
	switch {
	case s.answers:
		left = min(left, max(came, s.since)+o.o.Budget-now)
	case s.long:
		left = min(left, came+min(brief, o.o.Budget)-now)
	}
	return left
}

// expired says that a request has waited as long as it may. known has the shards that were looked at in this
// round.
func (o *outages) expired(d *deferred, now time.Duration, known map[nodeSlot]shard) bool {
	if now < d.least {
		return false
	}
	key := nodeSlot{d.slot, d.addr}
	s, looked := known[key]
	if !looked {
		s = o.shardOf(int(d.slot), d.addr)
		known[key] = s
	}
	s.long = s.long && !d.ran
	return o.left(s, d.came, now) < 0
}

// nodeSlot is where a request goes.
type nodeSlot struct {
	slot int16
	addr string
}

// Left is for how long a request for the slot that came at that time, or whose trouble began then, is to be
// tried still, as far as anybody knows now. Not at all: it is not above 0.
func (o *outages) Left(slot int, came time.Time) time.Duration {
	return o.left(o.shardOf(slot, ""), came.Sub(o.born), o.age())
}

// Silent is why nothing new should be sent to the master at addr, nil if it may be: it has owed an answer for
// a while. There will be news once it has answered, or is no master any more.
func (o *outages) Silent(addr string) error {
	if since, silent := o.known.Silent(addr); !silent || time.Since(since) < holdAfter {
		return nil
	}
	return fmt.Errorf("%w: %w", cluster.ErrUnavailable, cluster.NodeError{Addr: addr, Err: errOwes})
}

// hold says that the node of a shared pipe has owed an answer for a while, and has not been heard meanwhile.
func (o *outages) hold(p *Pipe) bool {
	since, silent := o.known.Silent(p.addr)
	return silent && p.conn != nil && p.Conn == nil && !p.mode.Replica && time.Since(since) >= holdAfter &&
		p.loop.Now().Sub(p.said) >= holdAfter
}

// holds says that the pipe which would carry d is held.
func (o *outages) holds(d *deferred, shared map[nodeKey]*Pipe) bool {
	addr := d.addr
	if d.slot >= 0 && o.index[d.slot] >= 0 {
		addr = o.topology.Masters[o.index[d.slot]].Addr
	}
	p := shared[nodeKey{addr, d.mode}]
	return p != nil && d.slot != anySlot && o.hold(p)
}

// hang says why a request should not wait in p, or returns nil. The reason: its node owes replies, or has
// been down for long. It has the node dialled.
func (o *outages) hang(p *Pipe) (why error) {
	if o.hold(p) {
		return cluster.NodeError{Addr: p.addr, Err: errOwes}
	}
	if p.Conn != nil || p.conn != nil && (p.calls.len() == 0 || p.loop.Now().Sub(p.progress) < hung) {
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
