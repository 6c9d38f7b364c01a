package pipe

import (
	"bytes"
	"time"

	"lockproxy/cluster"
	"lockproxy/cluster/retry"
)

// waitingLimit bounds the bytes of the requests that wait for their nodes, in
// queues of Options.QueueLimit.
const waitingLimit = 16

// retrier decides what becomes of requests that their nodes have refused: they are sent again, at once or
// later, or asked about (doubt.go), or the client gets the refusal. What becomes of those whose connection
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

// redirect handles an error reply that does not concern the client: the request goes elsewhere, or again,
// and the client never learns of it. It reports false for every other error. req aliases the backlog of
// pipe.
func (r *retrier) redirect(pipe *Pipe, c call, req, reply []byte) bool {
	e, rest := retry.ErrorOf(reply)
	if e == nil {
		return false
	}
	script, raised := fromScript(&c, req, e, rest)
	if raised {
		return false
	}
	if e.Verdict == retry.LoadScript {
		r.scripts.lost(pipe.addr, req)
	} else if pipe.mode.Replica {
		r.declined(pipe, c, req, e)
		return true
	}
	final := c.believed || c.alone || e.Counts == retry.TryAgain && c.splits
	if !final && r.putAside(pipe, &c, req, reply) {
		return true
	}
	if script && !c.believed && e.Verdict != retry.LoadScript && !(c.resend && mayRepeat(req)) {
		r.doubt(pipe, c, e, req, reply)
		return true
	}
	if e.Counts == retry.Ask || e.Counts == retry.TryAgain {
		r.stats.moving.note(c.slot, r.loop.Now())
	}
	if e.Counts == retry.TryAgain && c.splits {
		r.stats.Redirects[e.Counts].Add(1)
		r.Refresh()
		c.to.Detour(c.tag)
		return false
	}
	first := c.believed // it has waited at the front of its slot
	c.believed, c.alone = false, false
	switch e.Verdict {
	case retry.Redirect:
		return r.follow(pipe, c, req, reply, first)
	case retry.Later:
		r.stats.Redirects[e.Counts].Add(1)
		r.Refresh()
		c.to.Detour(c.tag)
		r.nodes.redial(pipe, reply)
		r.later(pipe.addr, pipe.mode, c, req, bytes.Clone(reply), nil)
		return true
	}
	return r.heal(pipe, c, req, reply)
}

// follow sends a request to the node that reply names, unless it has to wait first. first says that it has.
func (r *retrier) follow(pipe *Pipe, c call, req, reply []byte, first bool) bool {
	e, rest := retry.ErrorOf(reply)
	_, addr, ok := parseRedirect(rest, pipe.addr)
	if !ok || c.slot == thisNode || r.topology.Kind != cluster.Cluster {
		return false
	}
	r.Refresh()
	c.to.Detour(c.tag)
	if addr == pipe.addr {
		r.nodes.redial(pipe, reply)
	}
	addr = r.member(addr)
	c.healed = false // that node may have lost the script too
	hops := addr != "" && (first || !r.waiting.delays(c.slot))
	if hops && !c.try.Hop() {
		r.stats.Redirects[retry.Loop].Add(1)
		hops = false
	}
	if !hops {
		r.later(pipe.addr, pipe.mode, c, req, bytes.Clone(reply), nil)
		return true
	}
	req = lasting(req)
	r.stats.Redirects[e.Counts].Add(1)
	switch {
	case e.Counts == retry.Ask:
		c.before, c.astray = sayAsking, true
	default:
		pipe.Fade() // before the topology shows it
	}
	target := r.nodes.pipe(addr, pipe.mode.again())
	if !target.retired.IsZero() {
		target.retired = r.loop.Now() // it is in use before the topology shows it
	}
	c.again = true
	r.nodes.sendTo(target, &c, req)
	return true
}

// declined sends a read that a replica has refused to the master.
func (r *retrier) declined(pipe *Pipe, c call, req []byte, e *retry.Error) {
	if e.Verdict == retry.Redirect {
		r.Refresh()
	}
	r.stats.Redirects[e.Counts].Add(1)
	pipe.shunned = r.loop.Now().Add(shunFor)
	c.to.Detour(c.tag)
	c.healed = false
	r.nodes.send(&c, pipe.mode.again(), lasting(req))
}

// heal has the node of pipe run req once more, behind the script that it lacks. The script is loaded once
// for all requests that need it, and in a later round if enough was loaded in this one. The node may lose it
// again before the request arrives (SCRIPT FLUSH, or it was still loading when it got the script); a request
// that may run twice then tries again, a few times. Where SCRIPT LOAD is forbidden, the request becomes an
// EVAL.
func (r *retrier) heal(pipe *Pipe, c call, req, reply []byte) bool {
	s := &r.scripts
	if c.healed && !s.whole && !(c.resend && c.try.Hop()) {
		return false
	}
	sha, ok := s.named(req, new(hexSHA))
	if !ok {
		return false
	}
	req = lasting(req) // it may lie in the backlog of pipe, which changes
	loading := pipe.loading[string(sha)]
	if r.waiting.delays(c.slot) || !loading && s.full(r.loop.Now()) {
		r.nextRound(pipe, c, req, bytes.Clone(reply), nil)
		return true
	}
	if !loading {
		source, ok := s.source(sha)
		if !ok {
			return false
		}
		s.loaded += len(source)
		if s.whole {
			req = withSource(req, source)
		} else {
			s.load(pipe, string(sha), source)
		}
	}
	r.stats.Redirects[retry.NoScript].Add(1)
	c.healed, c.again = true, true
	c.to.Detour(c.tag)
	r.nodes.sendTo(pipe, &c, req)
	return true
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
		case r.expired(d, now.Sub(r.born), known):
			r.giveUp(d)
		case now.Before(d.next), r.waiting.delays(d.slot), r.holds(d, r.shared):
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
