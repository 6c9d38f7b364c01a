package pipe

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"lockproxy/cluster"
	"lockproxy/cluster/pipe/owned"
	"lockproxy/internal/slot"
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

// outages tells which shards have a master that answers.
type outages struct {
	*env
	gained map[string]time.Duration // when a master got slots last, since born
	*routing
}

// noteGained notes which masters have got slots that they did not have before. before is the topology until
// now. nil: it is the first one, and nobody has waited for it.
func (o *outages) noteGained(before *cluster.Topology, now time.Duration) {
	if before == nil {
		return
	}
	gained, more := make(map[string]time.Duration), withMoreSlots(o.topology, before)
	for _, n := range o.topology.Masters {
		gained[n.Addr] = o.gained[n.Addr]
		if more[n.Addr] {
			gained[n.Addr] = now
		}
	}
	o.gained = gained
}

// leaveRetired gives up pipes whose nodes have left the topology and do not answer: what they owe can come
// from elsewhere. The others may still answer, for a while.
func (o *outages) leaveRetired() {
	for _, pipe := range o.pipes() {
		_, doubted := o.felt.Doubted(pipe.addr)
		switch {
		case pipe.retired.IsZero(), !doubted && !pipe.dialing:
		case pipe.Conn != nil:
			pipe.Close(owned.ErrRetired)
		case pipe.dialing:
			pipe.cancel()
		case pipe.calls.Len() > 0:
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

// longOutage reports the outage of addr if it has lasted for MaxWait, or for the budget where nobody can take
// over: a master of a cluster that has no replica is back soon, or not for long. So it is with slots of
// nobody. But one that says it loads its data, or misses other masters, is waited for.
func (o *outages) longOutage(addr string) (cluster.Outage, bool) {
	out, lost := o.felt.Of(addr)
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

// masterAt is what is known of the master at addr. A node that gets slots is new to them, however long it has
// answered for others: requests for them have the whole Budget from then on.
func (o *outages) masterAt(addr string) shard {
	back, answers := o.felt.Answers(addr)
	_, long := o.longOutage(addr)
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
		_, long := o.longOutage("")
		return shard{long: long}
	}
	// any master: one that answers is enough
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

// timeLeft is for how long a request for the shard that came at that time is tried still, as far as anybody
// knows now. It is less than 0 when that time is over. came, now and since are counted from the birth of the
// pool.
func (o *outages) timeLeft(s shard, came, now time.Duration) time.Duration {
	left := came + o.o.MaxWait - now
	switch {
	case s.answers:
		left = min(left, max(came, s.since)+o.o.Budget-now)
	case s.long:
		left = min(left, came+min(brief, o.o.Budget)-now)
	}
	return left
}

// expired says that a request to its slot, or to the node at addr, has waited as long as it may. known has
// the shards that were looked at in this round.
func (o *outages) expired(c *call, addr string, now time.Duration, known map[nodeSlot]shard) bool {
	key := nodeSlot{c.slot, addr}
	s, looked := known[key]
	if !looked {
		s = o.shardOf(int(c.slot), addr)
		known[key] = s
	}
	// One that may have run is not given up early: its client would not know what has become of it.
	s.long = s.long && !c.ran
	return o.timeLeft(s, c.came, now) < 0
}

// nodeSlot is where a request goes.
type nodeSlot struct {
	slot int16
	addr string
}

// Left is for how long a request for the slot that came at that time, or whose trouble began then, is to be
// tried still, as far as anybody knows now. Not at all: it is not above 0.
func (o *outages) Left(slot int, came time.Time) time.Duration {
	return o.timeLeft(o.shardOf(slot, ""), came.Sub(o.born), o.age())
}

// errOwes is why nothing new is sent to a node that owes answers.
var errOwes = errors.New("it does not answer")

// Silent is why nothing new should be sent to the master at addr, nil if it may be: it has owed an answer for
// a while. There will be news once it has answered, or is no master any more.
func (o *outages) Silent(addr string) error {
	if since, silent := o.felt.Silent(addr); !silent || time.Since(since) < holdAfter {
		return nil
	}
	return fmt.Errorf("%w: %w", cluster.ErrUnavailable, cluster.NodeError{Addr: addr, Err: errOwes})
}

// isHeld says that the node of a shared pipe has owed an answer for a while, and has not been heard
// meanwhile.
func (o *outages) isHeld(p *Pipe) bool {
	since, silent := o.felt.Silent(p.addr)
	return silent && p.conn != nil && p.Conn == nil && !p.mode.Replica && time.Since(since) >= holdAfter &&
		p.loop.Now().Sub(p.said) >= holdAfter
}

// holdsRequest says that the pipe is held which would carry a request to the slot, or to the node at addr.
func (o *outages) holdsRequest(slot int16, addr string, m Mode) bool {
	if slot >= 0 && o.index[slot] >= 0 {
		addr = o.topology.Masters[o.index[slot]].Addr
	}
	p := o.byNode[nodeKey{addr, m}]
	return p != nil && slot != anySlot && o.isHeld(p)
}

// hang says why a request should not wait in p, or returns nil. The reason: its node owes replies, could not
// be reached a moment ago, or has been down for long. It has the node dialled.
func (o *outages) hang(p *Pipe) (why error) {
	switch {
	case o.isHeld(p):
		return cluster.NodeError{Addr: p.addr, Err: errOwes}
	case p.conn == nil && !p.dialing && p.loop.Now().Before(p.retryAt):
		return p.dialErr
	case p.Conn != nil || p.conn != nil && (p.calls.Len() == 0 || p.loop.Now().Sub(p.progress) < hung):
		return nil
	}
	out, long := o.longOutage(p.addr)
	if !long {
		return nil
	}
	if p.conn == nil && !p.dialing {
		p.dialNode()
	}
	return cluster.NodeError{Addr: p.addr, Err: out.Err}
}

// routing decides which node a request goes to: the topology of a loop, and what is computed from it.
type routing struct {
	*env
	topology *cluster.Topology
	index    [slot.Count]int16 // the number of the master of each slot among topology.Masters, or -1
	lowest   []int             // slots: the lowest of each master that has any
	turn     int               // round robin over masters
	redials  uint64            // how often later requests got another connection than earlier ones
}

// followTopology takes over a topology. Numbers of masters from before are void from now on.
func (r *routing) followTopology(t *cluster.Topology) {
	r.topology = t
	at := make(map[*cluster.Node]int16, len(t.Masters))
	for i, n := range t.Masters {
		at[n] = int16(i)
	}
	r.lowest = r.lowest[:0]
	seen := make(map[int16]bool)
	for s := range r.index {
		r.index[s] = -1
		if i, ok := at[t.Slots[s]]; ok {
			r.index[s] = i
			if !seen[i] {
				seen[i] = true
				r.lowest = append(r.lowest, s)
			}
		}
	}
}

// chooseMaster is the number of the master of slot n; if n is negative, that of any master in turn; -1 if
// there is none.
func (r *routing) chooseMaster(n int) int {
	switch {
	case n >= 0:
		return int(r.index[n])
	case len(r.topology.Masters) > 0:
		r.turn++
		return r.turn % len(r.topology.Masters)
	}
	return -1
}

// Version changes when a later request may go to another node than an earlier one for the same slot, or over
// another connection.
func (r *routing) Version() uint64 { return r.topology.Version + r.redials }

// Topology is the topology that routes requests now.
func (r *routing) Topology() *cluster.Topology { return r.topology }

// SomeSlot is a slot that has a master; AnySlot if there is none. The same seed gives the same slot as long
// as the topology stays.
func (r *routing) SomeSlot(seed int64) int {
	if len(r.lowest) == 0 {
		return anySlot
	}
	return r.lowest[uint64(seed)%uint64(len(r.lowest))]
}

// SlotAt is the lowest slot of the master at addr, AnySlot if there is no such master.
func (r *routing) SlotAt(addr string) int {
	for _, s := range r.lowest {
		if r.topology.Masters[r.index[s]].Addr == addr {
			return s
		}
	}
	return anySlot
}

// Owner is the number of the master of slot n among Topology().Masters, -1 if there is none.
func (r *routing) Owner(n int) int { return int(r.index[n]) }

// MasterOf is the address of the master of slot n (AnySlot: of any), "" if there is none.
func (r *routing) MasterOf(n int) string {
	i := r.chooseMaster(n)
	if i < 0 {
		return ""
	}
	return r.topology.Masters[i].Addr
}

// withMoreSlots are the addresses of the nodes that have slots in t which they do not have in other.
func withMoreSlots(t, other *cluster.Topology) map[string]bool {
	all := make(map[string]bool)
	for s, node := range t.Slots {
		if there := other.Slots[s]; node != nil && (there == nil || there.Addr != node.Addr) {
			all[node.Addr] = true
		}
	}
	return all
}

// member is where the node is reached that a redirect calls addr; "" if no node of the cluster is known by
// that. Then control asks for it. Redirects are followed to nodes of the cluster only: clients can make nodes
// send a redirect, by a script or DEBUG ERROR, and whoever is dialled gets the password. The topology has the
// nodes that serve slots; a node that is about to get its first slot is a member too.
func (r *routing) member(addr string) (at string) {
	if slices.ContainsFunc(r.topology.Nodes(), func(n *cluster.Node) bool { return n.Addr == addr }) {
		return addr
	}
	return r.control.Member(addr)
}
