// Package pipe carries requests to the nodes of the upstream, and replies back. All of it runs on the loops
// of the proxy, so nothing here blocks, and nothing needs a lock.
//
// A Pipe is one connection that carries the requests of many clients, one behind the other. Redis answers in
// that order, so the oldest request gets the next reply. A Pool has those of one loop, one for each node and
// Mode:
//
//	Pool.Send(Request) --> slot --> master --> Pipe: backlog (bytes), ring (calls) --> node
//	                                                                                      |
//	Receiver.Receive <-- redirect? no <-- the oldest call <-- Framer <-- Pipe.Read <------+
//	                        |
//	                        +- yes: retry.Verdict --> another node, or later, or behind SCRIPT LOAD
//
// A Pipe keeps the bytes of each request until its reply is there. So a request that a node has not run is
// sent again, at once or when it can, while its budget lasts. One that may have run is not, unless it says so
// (Request.Resend). Scripts may say what only Redis should. All that is decided by one type, the retrier:
// redirect.go (refused), lost.go (the connection has ended), waiting.go (what waits).
//
// What replies show beside what they say is in package signs, what is known of scripts in package script.
//
// What a shared Pipe cannot carry has connections of its own, which are pipes too (package owned):
//
//	Pool.Own       for one client, until it is released: transactions, commands that block, SYNC
//	Pool.Private   a set for one client, one a node: tracking, large commands, users of the upstream
//
// Whatever a file needs of those above it, it asks of its home, the Pool. But for that, no file uses what a
// file above it has:
//
//	client, stream --> pool --> shared --> lost --> redirect --> retrier --> own, outage, late, stuck
//	those --> reply --> pipe, link --> order, stats --> request
//
// Begin reading at Pool.Send (pool.go), Pipe.appendRequest (pipe.go) and Pipe.deliver (reply.go), then
// redirect.go.
package pipe

import (
	"fmt"
	"net"
	"time"

	"lockproxy/cluster"
	"lockproxy/cluster/pipe/owned"
	"lockproxy/cluster/pipe/script"
	"lockproxy/cluster/retry"
	"lockproxy/internal/loop"
)

// Pool is the connections of one loop to all nodes: one for each node and mode,
// made when first needed. All methods run on the loop.
type Pool struct {
	*env
	routing
	ownedPipes
	sharedPipes
	lateness
	retrier
	came time.Duration // of the last request
}

// New returns the pool of l, on l. stats may be shared among loops.
func New(l *loop.Loop, control Control, o Options, stats *Stats) *Pool {
	o = o.withDefaults()
	p := new(Pool)
	e := &env{
		home: p, loop: l, control: control, o: o, stats: stats, felt: control.Outages(), born: time.Now(),
		byNode: make(map[nodeKey]*Pipe), ownPipes: make(map[*Pipe]struct{}),
	}
	p.env, p.routing.env, p.ownedPipes.env = e, e, e
	p.own = owned.NewPlaces(owned.Options{
		Loop: l, Most: o.MaxOwn, Budget: o.Budget, MaxPush: o.QueueLimit, NewLink: p.carryConn,
		Masters: func() []*cluster.Node { return p.topology.Masters },
	}, &stats.own)
	p.sharedPipes = sharedPipes{
		env: e, routing: &p.routing, ownedPipes: &p.ownedPipes, leaving: make(map[*Pipe]struct{}),
		stuckPipes: stuckPipes{env: e},
	}
	p.retrier = retrier{
		env: e, routing: &p.routing, senders: make(senders),
		outages: outages{env: e, routing: &p.routing, gained: make(map[string]time.Duration)},
		scripts: script.NewInventory(o.Source, o.Flushes),
		rests:   rests{timers: l, all: make(map[*time.Timer]func())},
	}
	p.waiting.firsts = make(map[sender]time.Duration)
	p.lateness = lateness{env: e, forgotten: newForgotten(e)}
	p.Update()
	p.loop.After(patrol, p.patrolAll)
	return p
}

// loadAhead has the script that req runs loaded first, where it may be missing. Users of the upstream may not
// be allowed to load scripts.
func (p *Pool) loadAhead(pipe *Pipe, req []byte) {
	if p.scripts.Forbidden || pipe.Special() {
		return
	}
	if sha, source := p.scripts.Missing(pipe.addr, req, pipe.loading, p.loop.Now()); source != nil {
		loadScript(&p.scripts, pipe, sha, source)
	}
}

// Close ends all connections; requests on their way fail. The loop goes on, and what is sent from now on
// fails at once.
func (p *Pool) Close() {
	p.closed = true
	p.forgotten.end()
	p.own.Close()
	p.sharedPipes.closeShared()
	for _, d := range p.waiting.takeAll() {
		if d.inDoubt {
			continue // the end of the question is its end
		}
		d.to.Fail(d.tag, fmt.Errorf("%w: %w", d.outcome(), net.ErrClosed))
	}
}

// Update takes over the current topology. If that is the present one, masters serve again that did not. It is
// called on the loop behind each announcement of the control plane.
func (p *Pool) Update() {
	t := p.control.Topology()
	if t == p.topology {
		p.news()
		return
	}
	before := p.topology
	p.routing.followTopology(t)
	p.outages.noteGained(before, p.age())
	p.retirePipes(t)
	// To compare all slots is long, and only sets want it.
	if _, sets := p.own.Now(); sets > 0 {
		p.own.Moved(withMoreSlots(before, t))
	}
	p.followReaders(t)
	p.leaveRetired()
	p.news()
}

// sendToSlot sends c to the master that its slot has at this moment. nil: there is none, and c waits, or as
// in sendTo.
func (p *Pool) sendToSlot(c *call, m Mode, req []byte) *Pipe {
	i := p.chooseMaster(int(c.slot))
	if i < 0 {
		p.control.Refresh()
		p.deferRequest("", m, *c, req, retry.Unserved, nil)
		return nil
	}
	return p.sendTo(p.master(i, m), c, req)
}

// sendTo sends c over pipe, or defers it if it had better wait. nil: it waits, or has failed. A request that
// is sent for the first time is never held back for the order of its client; what is sent again is.
func (p *Pool) sendTo(pipe *Pipe, c *call, req []byte) *Pipe {
	if len(req) > cluster.MaxShared && pipe.Conn == nil {
		c.to.Fail(c.tag, errShared)
		return nil
	}
	if p.closed {
		c.to.Fail(c.tag, fmt.Errorf("%w: %w", c.outcome(), net.ErrClosed))
		return nil
	}
	if why := p.hang(pipe); why != nil {
		p.deferRequest(pipe.addr, pipe.mode, *c, req, nil, why)
		return nil
	}
	if c.again {
		if p.senders.blocks(pipe, c) || p.waiting.behind(c) {
			p.nextRound(pipe, *c, req, nil, errBehind)
			return nil
		}
		p.senders.noteSent(pipe, c)
	}
	pipe.appendRequest(c, req)
	return pipe
}

// Overloaded says that the master of a slot answers, but later than Options.ShedAfter, so that a request that
// is sent to it now would wait for too long.
func (p *Pool) Overloaded(slot int, m Mode) bool {
	limit := p.o.ShedAfter
	if limit == 0 || p.closed {
		return false
	}
	i := p.chooseMaster(slot)
	if i < 0 {
		return false
	}
	pipe := p.master(i, m)
	if pipe.conn == nil || !pipe.congestion.Exceeds(pipe.calls.Len(), p.loop.Now(), limit) {
		return false
	}
	p.stats.Shed.Add(1)
	return true
}

// patrolAll looks after all pipes.
func (p *Pool) patrolAll() {
	if p.closed {
		return
	}
	now := p.loop.Now()
	p.sharedPipes.patrolShared(now)
	p.patrolOwn(now)
	p.loop.After(patrol, p.patrolAll)
}

// Send sends a request. It returns the pipe that carries it, or nil while the request waits for a node. If
// Bytes are more than loop.Shared, nobody may write to them any more. r is the caller's again.
func (p *Pool) Send(r *Request) *Pipe {
	c := &call{
		to: r.To, tag: r.Tag, slot: anySlot, resend: r.Resend, splits: r.Splits, lasting: r.Kept,
		script: r.Script, wide: r.Target.kind > toSlot, came: max(p.age(), p.came+1),
	}
	p.came = c.came
	switch r.Target.kind {
	case toSlot:
		c.slot = int16(r.Target.n)
		if r.Readers != MasterOnly {
			c.resend = true
			if pipe := p.readerFor(r); pipe != nil {
				return p.sendTo(pipe, c, r.Bytes)
			}
		}
	case toMaster:
		if i := int(r.Target.n); i < len(p.masters) {
			c.slot, c.before = thisNode, r.Mode.before()
			return p.sendTo(p.master(i, r.Mode), c, r.Bytes)
		}
	case toShard:
		i := int(r.Target.n)
		c.slot = thisNode
		if len(p.lowest) == len(p.masters) {
			c.slot = int16(p.lowest[i])
		}
		return p.sendTo(p.master(i, r.Mode), c, r.Bytes)
	case toNode:
		c.slot = thisNode
		return p.sendTo(p.pipe(r.Target.addr, r.Mode), c, r.Bytes)
	}
	c.before = r.Mode.before()
	return p.sendToSlot(c, r.Mode, r.Bytes)
}
