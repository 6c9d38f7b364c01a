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
// sent again (redirect.go), at once or when it can (deferred), while its budget lasts. One that may have run
// is not, unless it says so (Request.Resend). Scripts may say what only Redis should (doubt.go).
//
// What a shared Pipe cannot carry has connections of its own, which are pipes too:
//
//	Pool.Own       for one client, until it is released: transactions, commands that block, SYNC
//	Pool.Private   a set for one client, one a node: tracking, large commands, users of the upstream
//
// Begin reading at Pool.Send (request.go), Pipe.append and Pipe.deliver (pipe.go), then redirect.go.
package pipe

import (
	"errors"
	"fmt"
	"net"
	"time"

	"lockproxy/cluster"
	"lockproxy/cluster/retry"
	"lockproxy/internal/loop"
)

// errShared is why a large request was not sent over a shared connection. Large requests go over a Private.
var errShared = errors.New("a request of more than 1 MiB is not sent over a connection that clients share")

// Pool is the connections of one loop to all nodes: one for each node and mode,
// made when first needed. All methods run on the loop.
type Pool struct {
	*env
	routing
	byNode  map[nodeKey]*Pipe // the pipes that clients share
	masters []node
	readers [][]node // by master: the replicas that may be read from
	leaving leavingPipes

	own      ownPipes
	privates privates
	stuckPipes
	lateness
	retrier
	came time.Duration // of the last request
}

// New returns the pool of l, on l. stats may be shared among loops.
func New(l *loop.Loop, control Control, o Options, stats *Stats) *Pool {
	o = o.withDefaults()
	e := &env{loop: l, control: control, o: o, stats: stats, born: time.Now()}
	p := &Pool{
		env: e, byNode: make(map[nodeKey]*Pipe), leaving: make(leavingPipes),
		own: newOwnPipes(l, &o, &stats.own), privates: make(privates),
	}
	p.routing.env = e
	p.retrier = retrier{
		env: e, routing: &p.routing, nodes: p, shared: p.byNode, senders: make(senders),
		scripts: scriptLoads{
			source: o.Source, flushes: o.Flushes, there: make(map[string]map[string]bool),
		},
		rests: rests{timers: l, all: make(map[*rest]struct{})},
	}
	p.waiting.firsts = make(map[sender]time.Duration)
	p.outages = newOutages(control, o.Budget, o.MaxWait, &p.routing)
	e.felt = p.outages.Outages
	p.stuckPipes = stuckPipes{
		env: e, shared: p.byNode, retried: &p.waiting, pipe: p.pipe,
	}
	p.lateness = lateness{
		env: e, shared: p.byNode, own: p.own.all, forgotten: newForgotten(e, p.byNode, p.own.all),
	}
	p.Update()
	p.loop.After(patrol, p.patrol)
	return p
}

// loadAhead implements home.
func (p *Pool) loadAhead(pipe *Pipe, req []byte) { p.scripts.ahead(pipe, req) }

// arrived implements home.
func (p *Pool) arrived(c *call) { p.senders.ends(c) }

// connected implements home.
func (p *Pool) connected() { p.waiting.now(p.loop.Now()) }

// restarted implements home.
func (p *Pool) restarted(addr string) { p.scripts.forget(addr) }

// newPipe is a pipe that is not connected yet.
func (p *Pool) newPipe(addr string, m Mode) *Pipe {
	return &Pipe{env: p.env, home: p, addr: addr, mode: m, counts: p.stats.node(addr)}
}

// Close ends all connections; requests on their way fail.
func (p *Pool) Close() {
	p.closed = true
	p.forgotten.end()
	p.own.close()
	for _, pipe := range p.byNode {
		if pipe.dialing {
			pipe.cancel()
			p.abandon(pipe, net.ErrClosed)
		}
		pipe.hangUp(net.ErrClosed)
	}
	p.leaving.close()
	for _, d := range p.waiting.takeAll() {
		if d.inDoubt {
			continue // the end of the question is its end
		}
		d.to.Fail(d.tag, fmt.Errorf("%w: %w", d.outcome(), net.ErrClosed))
	}
}

// Update takes over the current topology. If that is the present one, masters serve again that did not.
func (p *Pool) Update() {
	t := p.control.Topology()
	if t == p.topology {
		p.news()
		return
	}
	before := p.topology
	p.routing.follow(t)
	p.outages.follow(before, p.age())
	p.masters = make([]node, len(t.Masters))
	present := make(map[string]bool)
	for i, n := range t.Masters {
		present[n.Addr] = true
		p.masters[i].addr = n.Addr
	}
	replicas := make(map[string]bool)
	for _, n := range t.Replicas {
		replicas[n.Addr] = true
	}
	for _, pipe := range p.byNode {
		pipe.retire(!present[pipe.addr] && !(pipe.mode.Replica && replicas[pipe.addr]), p.loop.Now())
	}
	for pipe := range p.own.all {
		pipe.retire(!present[pipe.addr], p.loop.Now())
	}
	if len(p.privates) > 0 {
		p.privates.moved(p.lost(before))
	}
	p.followReaders(t)
	p.outages.leave(p.byNode, p.own.all)
	p.news()
}

// retire notes when the node left the topology, if it has.
func (l *link) retire(gone bool, now time.Time) {
	switch {
	case !gone:
		l.retired = time.Time{}
	case l.retired.IsZero():
		l.retired = now
	}
}

func (p *Pool) send(c *call, m Mode, req []byte) *Pipe {
	i := p.choose(int(c.slot))
	if i < 0 {
		p.control.Refresh()
		c.to.Detour(c.tag)
		p.later("", m, *c, req, retry.Unserved, nil)
		return nil
	}
	return p.sendTo(p.master(i, m), c, req)
}

func (p *Pool) master(i int, m Mode) *Pipe { return p.masters[i].pipe(p, m) }

// node is a node of the topology. The shared pipes to it that were used last are found quickly.
type node struct {
	addr string
	last [2]*Pipe // by protocol - 2
}

// pipe finds or makes the pipe to the node.
func (n *node) pipe(p *Pool, m Mode) *Pipe {
	pipe := n.last[m.Proto-2]
	if pipe == nil || pipe.mode != m {
		if pipe = p.pipe(n.addr, m); m.Own == nil {
			n.last[m.Proto-2] = pipe
		}
	}
	return pipe
}

// forget has the node's pipe found anew.
func (n *node) forget(pipe *Pipe) {
	for i := range n.last {
		if n.last[i] == pipe {
			n.last[i] = nil
		}
	}
}

// pipe finds or makes the pipe to addr.
func (p *Pool) pipe(addr string, m Mode) *Pipe {
	if m.Own != nil {
		return m.Own.pipe(addr)
	}
	if m.Second {
		m = p.around(addr, m)
	}
	key := nodeKey{addr, m}
	pipe := p.byNode[key]
	if pipe == nil {
		if m.DB != 0 {
			p.roomForDatabase()
		}
		pipe = p.newPipe(addr, m)
		p.byNode[key] = pipe
	}
	return pipe
}

func (p *Pool) sendTo(pipe *Pipe, c *call, req []byte) *Pipe {
	if len(req) > cluster.MaxShared && pipe.owner == nil {
		c.to.Fail(c.tag, errShared)
		return nil
	}
	if p.closed {
		c.to.Fail(c.tag, fmt.Errorf("%w: %w", c.outcome(), net.ErrClosed))
		return nil
	}
	if pipe.conn == nil && !pipe.dialing && p.loop.Now().Before(pipe.retryAt) {
		c.to.Detour(c.tag)
		p.later(pipe.addr, pipe.mode, *c, req, nil, pipe.dialErr)
		return nil
	}
	if why := p.outages.hang(pipe); why != nil {
		c.to.Detour(c.tag)
		p.later(pipe.addr, pipe.mode, *c, req, nil, why)
		return nil
	}
	if c.again {
		if p.senders.blocks(pipe, c) || p.waiting.behind(c) {
			p.nextRound(pipe, *c, req, nil, errBehind)
			return nil
		}
		p.senders.sends(pipe, c)
	}
	pipe.append(c, req)
	return pipe
}

// patrol gives up nodes that owe replies and are silent, or nearly so, and closes pipes whose node has left
// the topology.
func (p *Pool) patrol() {
	if p.closed {
		return
	}
	now := p.loop.Now()
	for _, pipe := range p.byNode {
		pipe.renewLogin()
		switch {
		case !pipe.retired.IsZero() && now.Sub(pipe.retired) > retireAfter && !pipe.dialing:
			p.forget(pipe)
			pipe.hangUp(errRetired)
		case !pipe.mode.plain() && pipe.unused() && now.Sub(pipe.progress) > sideIdle:
			p.forget(pipe)
			pipe.hangUp(errIdle)
		case pipe.conn != nil && pipe.calls.len() > 0 && now.Sub(pipe.progress) > p.o.Timeout:
			if !p.busyWith(pipe, now) {
				pipe.hangUp(errSilent)
			}
		case crawls(pipe, now):
			cutOff(pipe, errCrawls)
		}
	}
	p.leaving.patrol(now, p.o.Timeout)
	p.own.patrol(now, p.o.Timeout)
	p.loop.After(patrol, p.patrol)
}
