package pipe

import (
	"bytes"
	"time"

	"lockproxy/cluster"
)

// waitingLimit bounds the bytes of the requests that wait for their nodes, in
// queues of Options.QueueLimit.
const waitingLimit = 16

// retrier decides what becomes of requests that their nodes have refused: they are sent again, at once or
// later, or asked about (redirect.go), or the client gets the refusal. What becomes of those whose connection
// has ended is in lost.go.
type retrier struct {
	*env
	*routing
	nodes  nodes
	shared map[nodeKey]*Pipe
	outages
	scripts scriptLoads
	senders senders
	waiting deferredList
	armed   bool
	rests
}

// nodes are how requests are sent again.
type nodes interface {
	// send sends a request to the node of its slot, sendTo over a pipe.
	send(c *call, m Mode, req []byte) *Pipe
	sendTo(pipe *Pipe, c *call, req []byte) *Pipe
	// pipe finds or makes the pipe to addr.
	pipe(addr string, m Mode) *Pipe
	// redial makes later requests to the pipe's node use a new connection, if reply says that it may help.
	redial(pipe *Pipe, reply []byte)
}

// nextRound has the request sent again soon, and does not count that as a try.
func (r *retrier) nextRound(pipe *Pipe, c call, req, reply []byte, err error) {
	c.to.Detour(c.tag)
	if d := r.later(pipe.addr, pipe.mode, c, req, reply, err); d != nil {
		d.try, d.next = c.try, r.loop.Now()
	}
}

// later has the request sent again after a pause that grows, until its budget is used up. addr is the node
// that had it, "" if none had. req is kept. It returns nil if there is no room for one more.
func (r *retrier) later(addr string, m Mode, c call, req, reply []byte, err error) *deferred {
	c.healed, c.again = false, true
	if !c.try.Paused() {
		r.felt.Feel(addr, cluster.Felt{Delayed: 1})
	}
	next := r.loop.Now().Add(c.try.Pause())
	d := &deferred{call: c, mode: m.again(), addr: addr, next: next, reply: reply, err: err}
	if r.closed || r.waiting.bytes+len(req) > waitingLimit*r.o.QueueLimit {
		r.giveUp(d)
		return nil
	}
	d.req = lasting(req)
	r.waiting.add(d)
	r.arm()
	return d
}

// arm has the deferred requests tried soon.
func (r *retrier) arm() {
	if !r.armed && len(r.waiting.all) > 0 {
		r.armed = true
		r.loop.After(10*time.Millisecond, func() {
			r.armed = false
			r.retry()
		})
	}
}

// retry sends the deferred requests whose time has come, in the order in which they came.
func (r *retrier) retry() {
	waiting := r.waiting.takeAll()
	now := r.loop.Now()
	known := make(map[nodeSlot]shard)
	for _, d := range waiting {
		switch {
		case d.inDoubt:
			r.waiting.add(d)
		case now.Sub(r.born) >= d.least && r.expired(&d.call, d.addr, now.Sub(r.born), known):
			r.giveUp(d)
		case now.Before(d.next), r.waiting.delays(d.slot), r.holds(d.slot, d.addr, d.mode, r.shared):
			r.waiting.add(d)
		case d.slot == thisNode && r.left(d.addr, d.mode):
			r.giveUp(d)
		case d.slot == thisNode:
			r.nodes.sendTo(r.nodes.pipe(d.addr, d.mode), &d.call, d.req)
		default:
			r.nodes.send(&d.call, d.mode, d.req)
		}
	}
	r.arm()
}

// left says that a node has left the topology.
func (r *retrier) left(addr string, m Mode) bool {
	pipe := r.shared[nodeKey{addr, m}]
	return pipe != nil && !pipe.retired.IsZero()
}

// giveUp answers a request whose budget is used up: with the node's own words, or with why no node could be
// reached.
func (r *retrier) giveUp(d *deferred) {
	r.stats.GivenUp.Add(1)
	r.felt.Feel(d.addr, cluster.Felt{Failed: 1})
	if d.reply != nil && !d.ran && !isRedirect(d.reply) {
		d.to.Receive(d.tag, d.reply, true)
		return
	}
	d.to.Fail(d.tag, notTaken(d.outcome(), d.reply, d.err))
}

// news has everything tried now that waits, because what it waits for may have come.
func (r *retrier) news() {
	r.waiting.now(r.loop.Now())
	r.retry()
	r.wakeAll()
}

// newsSoon calls news in the next round.
func (r *retrier) newsSoon() {
	if !r.told {
		r.told = true
		r.loop.Post(func() {
			r.told = false
			r.news()
		})
	}
}

// putAside keeps c, which the node has refused, for later. It reports false if c may be sent again at once.
// req aliases the log.
func (r *retrier) putAside(p *Pipe, c *call, req, reply []byte) bool {
	client, _, latest := orderOf(c)
	if client == 0 || latest && !p.order.has(client) {
		return false
	}
	c.to.Detour(c.tag)
	r.keep(p, &heldRequest{call: *c, req: lasting(req), reply: bytes.Clone(reply)})
	return true
}

// keep puts h aside.
func (r *retrier) keep(p *Pipe, h *heldRequest) {
	p.order.keep(h, p.answered+uint64(p.calls.len()))
	r.senders.sends(nil, &h.call)
}
