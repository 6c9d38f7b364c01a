package pipe

import (
	"maps"
	"slices"
	"time"

	"lockproxy/cluster"
	"lockproxy/cluster/pipe/owned"
	"lockproxy/cluster/pipe/queue"
	"lockproxy/cluster/pipe/signs"
	"lockproxy/internal/loop"
	"lockproxy/internal/resp"
)

// Pipe is one connection to one node that carries the requests of many clients
// of one loop, or of a single one (Pool.Own), in order. It keeps the bytes of each request until its reply
// has come, so that a redirected request can be sent again.
type Pipe struct {
	*env
	addr   string
	mode   Mode
	counts *nodeCounters
	link
	*owned.Conn         // of the client that has it to itself; nil: it is shared
	stream      *Stream // the request that is being sent as it comes; nothing else may be queued then

	log        queue.Backlog    // the bytes of the requests in calls, in the same order
	calls      queue.Ring[call] // requests without an answer: the next reply is that of the oldest
	congestion signs.Congestion // only with Options.ShedAfter
	frame      resp.Framer
	inReply    bool // part of the head's reply has been delivered
	came       int  // how many bytes
	pace       signs.Pace
	inPush     bool        // inside a push message, which no request asked for
	proof      signs.Proof // only if the pipe is shared
	answered   uint64      // requests, ever: the clock of order
	order      order       // what is aside until later requests are answered

	stuck     bool // behind a script; see stuck.go
	crowded   int  // bytes of long replies since nothing was owed
	idleSigns int  // signs of life of its node since

	waiting []func()        // to be called when the queue has become short
	loading map[string]bool // by SHA1: scripts that are on their way to the node
}

// newPipe is a pipe that is not connected yet.
func newPipe(e *env, addr string, m Mode) *Pipe {
	return &Pipe{env: e, addr: addr, mode: m, counts: e.stats.node(addr)}
}

// unused says that the pipe has nothing to do.
func (p *Pipe) unused() bool { return p.calls.Len() == 0 && !p.dialing }

// appendRequest queues one request. It allocates only when the log grows. c is the caller's again, changed.
func (p *Pipe) appendRequest(c *call, req []byte) {
	// A connection of one client connects once, when it gets its place: package owned dials.
	if p.conn == nil && !p.dialing && p.Conn == nil {
		p.dialNode()
	}
	now := p.loop.Now()
	if p.calls.Len() == 0 {
		p.progress = now
		p.home.noteOwed()
		p.proof.Rest(now)
		// Requests behind others may get the reply of another one if the node is out of step: signs.Proof.
	} else if c.slot >= anySlot && p.Conn == nil && p.conn != nil && p.proof.Due(now) {
		tag, question := p.proof.Question(now)
		p.appendRequest(&call{slot: proving, tag: tag, resend: true}, question)
	}
	if c.script {
		p.home.loadAhead(p, req)
	}
	if c.before != nothing {
		p.precede(c)
	}
	if c.lasting {
		p.log.Keep(req)
	} else {
		p.log.Append(req)
	}
	c.size = len(req)
	p.calls.Push(c)
	if p.o.ShedAfter > 0 {
		p.congestion.Queued(p.calls.Len(), p.loop.Now())
	}
	if p.conn != nil {
		p.conn.Flush()
	}
}

var asking = []byte("*1\r\n$6\r\nASKING\r\n")

// precede queues the command that goes in front of c, if any.
func (p *Pipe) precede(c *call) {
	req := asking
	if c.before == sayPrivate {
		if req = p.mode.Own.Before(); len(req) == 0 { // the Setup has changed meanwhile
			c.before = nothing
			return
		}
	} else {
		c.before = nothing
	}
	p.appendRequest(&call{resend: true, slot: thisNode}, req)
}

// askNode sends a question about the connection, of which its owner does not know. then, if not nil, gets the
// answer. err is that the connection has ended.
func (p *Pipe) askNode(req []byte, then func(reply []byte, err error)) {
	c := &call{slot: thisNode, raw: true, ours: true}
	if then != nil {
		c.to = &Collector{Then: then}
	}
	p.appendRequest(c, req)
}

// queued is how many bytes of requests wait to be written or answered.
func (p *Pipe) queued() int { return p.log.Size() }

// Full says that clients which send to this pipe should not be read from now.
func (p *Pipe) Full() bool { return p.queued() > p.o.QueueLimit }

// WhenReady calls ready, on the loop, once the queue has become short.
func (p *Pipe) WhenReady(ready func()) { p.waiting = append(p.waiting, ready) }

// wakeWaiting calls those of WhenReady, each once. They may wait again at once.
func (p *Pipe) wakeWaiting() {
	waiting := p.waiting
	p.waiting = nil
	for _, ready := range waiting {
		ready()
	}
}

// Output implements loop.Handler.
func (p *Pipe) Output() []byte {
	if out := p.log.Output(); len(out) > 0 || p.stream == nil {
		return out
	}
	return p.stream.output()
}

// Wrote implements loop.Handler.
func (p *Pipe) Wrote(n int) {
	logged := p.stream == nil || len(p.log.Output()) > 0
	if logged {
		p.log.Wrote(n)
	}
	if p.stream != nil {
		p.stream.wrote(n, !logged)
	}
}

// env is what the pipes of one loop stand on.
type env struct {
	// It decides what becomes of their requests, and looks after what concerns several of them. It keeps
	// nothing that aliases the log of a pipe.
	home     *Pool
	loop     *loop.Loop
	control  Control
	o        Options
	stats    *Stats
	felt     *cluster.Outages   // may be nil
	byNode   map[nodeKey]*Pipe  // those that clients share
	ownPipes map[*Pipe]struct{} // those that one client has to itself, connected or connecting
	born     time.Time
	refused  *cluster.Login // by a node, as it was told
	closed   bool
}

// pipes are all pipes of the loop.
func (e *env) pipes() []*Pipe {
	return slices.AppendSeq(slices.Collect(maps.Values(e.byNode)), maps.Keys(e.ownPipes))
}

// Refresh hints that the topology may be out of date.
func (e *env) Refresh() { e.control.Refresh() }

// GaveUp counts a request whose budget is used up.
func (e *env) GaveUp() { e.stats.GivenUp.Add(1) }

// age is how long the pipes have been there.
func (e *env) age() time.Duration { return e.loop.Now().Sub(e.born) }
