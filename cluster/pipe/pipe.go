package pipe

import (
	"context"
	"fmt"
	"time"

	"lockproxy/cluster"
	"lockproxy/cluster/pipe/owned"
	"lockproxy/cluster/retry"
	"lockproxy/internal/loop"
	"lockproxy/internal/resp"
)

// Pipe is one connection to one node that carries the requests of many clients
// of one loop, or of a single one (Pool.Own), in order. It keeps the bytes of each request until its reply
// has come, so that a redirected request can be sent again.
type Pipe struct {
	*env
	home   home
	addr   string
	mode   Mode
	counts *nodeCounters
	link
	*owned.Conn         // of the client that has it to itself; nil: it is shared
	stream      *Stream // that is being sent; nothing else may be queued then

	log        backlog // of the requests in calls
	calls      ring
	congestion congestion // only with Options.ShedAfter
	frame      resp.Framer
	inReply    bool // part of the head's reply has been delivered
	came       int  // how many bytes
	pace       pace
	inPush     bool   // inside a push message, which no request asked for
	proof      proof  // only if the pipe is shared
	answered   uint64 // requests
	order      order

	stuck     bool // behind a script; see stuck.go
	crowded   int  // bytes of long replies since nothing was owed
	idleSigns int  // signs of life of its node since

	waiting []func()        // to be called when the queue has become short
	loading map[string]bool // by SHA1: scripts that are on their way to the node
}

// link is a connection that is made again whenever it is needed.
type link struct {
	conn    *loop.Conn       // nil while not connected
	self    cluster.Identity // of the connection, or of the last one; only if the pipe is shared
	as      *cluster.Login   // of the connection, or what it is about to take over
	renewAt time.Time        // not before
	dialing bool
	cancel  context.CancelFunc // of the dial
	retryAt time.Time          // no dial before
	dialErr error
	why     error // the reason this side closed the connection
	leaving bool  // it closes as soon as all is answered, or is released; see names.go

	since    time.Time     // the connection is there
	progress time.Time     // when bytes came last, or the queue began
	habit    time.Duration // how long its node owed replies lately
	late     bool          // it owes one for longer
	asked    time.Time     // when its node was asked about it last; see forgotten.go
	said     time.Time     // when it was heard last, if only in the handshake
	retired  time.Time     // when its node left the topology, or zero
	shunned  time.Time     // if it is a replica's: no reads before
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

// newPipe is a pipe that is not connected yet.
func newPipe(e *env, h home, addr string, m Mode) *Pipe {
	return &Pipe{env: e, home: h, addr: addr, mode: m, counts: e.stats.node(addr)}
}

// unused says that the pipe has nothing to do.
func (p *Pipe) unused() bool { return p.calls.len() == 0 && !p.dialing }

// home is what the pipes of a loop belong to. It decides what becomes of their requests, and looks after what
// concerns several pipes. Its methods do not keep what aliases the log of a pipe.
type home interface {
	// owes is told that a pipe owes a reply again.
	owes()
	// loadAhead has the script that req runs loaded first, where it may be missing.
	loadAhead(p *Pipe, req []byte)
	// letChoose lets the receiver of c, the oldest request of p, choose how to get its reply, which begins
	// with chunk.
	letChoose(p *Pipe, c *call, chunk []byte)
	// redirect handles an error reply that does not concern the client. It reports false for others.
	redirect(p *Pipe, c call, req, reply []byte) bool
	// arrived is told that c, which was sent again, is not under way any more.
	arrived(c call)
	// overtaken is told that c has run, or may have; joins, that it is answered: it is sent again if joins
	// returns true. goOn is called behind each reply while anything is aside.
	overtaken(p *Pipe, c call)
	joins(p *Pipe, c call, reply []byte) bool
	goOn(p *Pipe)
	// abandon settles every request of a connection that has ended.
	abandon(p *Pipe, err error)
	// connected is told that a connection was made, restarted that the node at addr may have forgotten what
	// it was told.
	connected()
	restarted(addr string)
	// member is where the node is reached that a redirect calls addr; "" if there is none.
	member(addr string) string
	// freed is told that a pipe is not stuck any more, crowd that n bytes of a long reply have come, or 0: no
	// more are owed.
	freed(p *Pipe)
	crowd(p *Pipe, n int)
}

// append queues one request. It allocates only when the log grows. c is the caller's again, changed.
func (p *Pipe) append(c *call, req []byte) {
	if p.conn == nil && !p.dialing && p.Conn == nil {
		p.dial()
	}
	now := p.loop.Now()
	if p.calls.len() == 0 {
		p.progress = now
		p.home.owes()
		p.proof.rest(now)
	} else if c.slot >= anySlot && p.Conn == nil && p.conn != nil && p.proof.due(now) {
		tag, question := p.proof.question(now)
		p.append(&call{slot: proving, tag: tag, resend: true}, question)
	}
	if c.script {
		p.home.loadAhead(p, req)
	}
	if c.before != nothing {
		p.precede(c)
	}
	if c.lasting {
		p.log.keep(req)
	} else {
		p.log.append(req)
	}
	c.size = len(req)
	p.calls.push(c)
	if p.o.ShedAfter > 0 {
		p.congestion.queued(p.calls.len(), p.loop.Now())
	}
	if p.conn != nil {
		p.conn.Flush()
	}
}

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
	p.append(&call{resend: true, slot: thisNode}, req)
}

// ask sends a question about the connection, of which its owner does not know. then, if not nil, gets the
// answer.
func (p *Pipe) ask(req []byte, then func(reply []byte, err error)) {
	c := &call{slot: thisNode, raw: true, ours: true}
	if then != nil {
		c.to = &Collector{Then: then}
	}
	p.append(c, req)
}

// queued is how many bytes of requests wait to be written or answered.
func (p *Pipe) queued() int { return p.log.size }

// Full says that clients which send to this pipe should not be read from now.
func (p *Pipe) Full() bool { return p.queued() > p.o.QueueLimit }

// WhenReady calls ready, on the loop, once the queue has become short.
func (p *Pipe) WhenReady(ready func()) { p.waiting = append(p.waiting, ready) }

func (p *Pipe) wakeWaiting() {
	waiting := p.waiting
	p.waiting = nil
	for _, ready := range waiting {
		ready()
	}
}

// Output implements loop.Handler.
func (p *Pipe) Output() []byte {
	if out := p.log.output(); len(out) > 0 || p.stream == nil {
		return out
	}
	return p.stream.output()
}

// Wrote implements loop.Handler.
func (p *Pipe) Wrote(n int) {
	logged := p.stream == nil || len(p.log.output()) > 0
	if logged {
		p.log.sent += n
	}
	if p.stream != nil {
		p.stream.wrote(n, !logged)
	}
}

// Read implements loop.Handler.
func (p *Pipe) Read(buf []byte) int {
	p.heard()
	if p.stuck {
		p.home.freed(p)
	}
	used := 0
	for used < len(buf) && p.conn != nil {
		n, done, err := p.frame.Next(buf[used:])
		if err != nil {
			p.hangUp(fmt.Errorf("%w: %w", cluster.ErrFraming, err))
			break
		}
		if n == 0 && !done {
			break
		}
		p.deliver(buf[used:used+n], done)
		used += n
	}
	p.pace.some, p.pace.bytes = true, p.pace.bytes+used
	if p.crowded > 0 && p.calls.len() == 0 {
		p.home.crowd(p, 0)
	}
	if p.waiting != nil && p.queued() <= p.o.QueueLimit/2 {
		p.wakeWaiting()
	}
	if p.leaving && p.Conn == nil && p.calls.len() == 0 {
		p.hangUp(owned.ErrReleased)
	}
	return used
}

// deliver gives chunk, a part of the oldest request's reply, to its receiver.
func (p *Pipe) deliver(chunk []byte, last bool) {
	if p.inPush || !p.inReply && chunk[0] == '>' {
		p.inPush = !last
		if p.Conn != nil {
			p.Push(chunk, last)
		}
		return
	}
	if p.calls.len() == 0 {
		p.hangUp(fmt.Errorf("%w: a reply that nothing asked for", cluster.ErrFraming))
		return
	}
	p.pace.whole = p.pace.whole || last
	if !last {
		if !p.inReply {
			p.home.letChoose(p, p.calls.head(), chunk)
			p.home.overtaken(p, *p.calls.head())
			chunk = madeUp(p, chunk, false)
		} else if p.Conn == nil && !p.mode.Second {
			p.home.crowd(p, len(chunk))
		}
		if exceeds(p, chunk) {
			return
		}
		p.inReply = true
		switch c := p.calls.head(); {
		case c.slot == proving:
			p.prove(c.tag, chunk, false)
		case c.to != nil:
			c.to.Receive(c.tag, chunk, false)
		}
		return
	}
	c := *p.calls.head()
	if !p.log.written(c.size) {
		// Redis refuses a command by its first bytes, and closes. It would take the rest, which is still to
		// be written, for commands. Any other reply belongs to another request.
		why := cluster.ErrHasty
		if p.inReply || chunk[0] != '-' {
			why = fmt.Errorf("%w: %w", cluster.ErrFraming, why)
		}
		defer p.hangUp(why)
	}
	if !p.inReply && chunk[0] == '-' && c.to != nil {
		p.counts.errors.Add(1)
		if c.raw && p.Conn != nil && misled(p.addr, chunk) {
			p.leaving = true
		}
		if c.again { // it is under way no more, and must not stand in its own way
			p.home.arrived(c)
			p.calls.head().again = false
		}
		if !c.raw && p.home.redirect(p, c, p.log.oldest(c.size), chunk) {
			p.popUnanswered()
			return
		}
		chunk = madeUp(p, chunk, c.raw)
	}
	if len(p.order.all) > 0 && !p.inReply {
		if p.home.joins(p, c, chunk) {
			p.popUnanswered()
			return
		}
		p.home.overtaken(p, c)
	}
	p.inReply = false
	p.pop()
	if s, ok := c.to.(*Stream); ok {
		s.answered(p, &c)
	}
	switch {
	case c.slot == proving:
		p.prove(c.tag, chunk, true)
	case c.to != nil:
		c.to.Receive(c.tag, chunk, true)
	}
	if len(p.order.all) > 0 {
		p.home.goOn(p)
	}
	p.Answered(c.to != nil, c.astray)
}

// prove takes a part of the reply to a question that proves that replies belong to their requests.
func (p *Pipe) prove(tag uint32, chunk []byte, last bool) {
	if err := p.proof.take(tag, chunk, last); err != nil {
		p.hangUp(err)
	}
}

// madeUp is an error, or the beginning of a long one, without what would send a client to another node: no
// node says that here, and a client would follow. good: its receiver goes to the nodes that it names.
func madeUp(p *Pipe, chunk []byte, good bool) []byte {
	if good && isRedirect(chunk) {
		_, to := retry.ErrorOf(chunk)
		if _, _, ok := parseRedirect(to, p.addr); ok {
			return chunk
		}
	}
	return plainError(chunk)
}

// exceeds counts chunk, a part of the oldest request's reply, and hangs up if its receiver takes less.
func exceeds(p *Pipe, chunk []byte) bool {
	c, size := p.calls.head(), 0
	if !p.inReply {
		p.came, size = 0, announced(chunk)
	}
	most := resp.Answer.Bytes
	if to, ok := c.to.(Longer); ok {
		most = to.Most(c.tag)
	}
	p.came += len(chunk)
	if max(p.came, size) <= most || c.to == nil && c.slot != proving {
		return false
	}
	cutOff(p, errLong)
	return true
}

// cutOff hangs up inside of a reply, whose request fails and is not asked again.
func cutOff(p *Pipe, why error) {
	p.calls.head().raw = true
	p.hangUp(why)
}

// popUnanswered removes the oldest request, whose reply does not concern its client.
func (p *Pipe) popUnanswered() {
	p.pop()
	p.home.goOn(p)
	p.Answered(false, false)
}

// heard notes that the node has sent something.
func (p *Pipe) heard() {
	now := p.loop.Now()
	if p.calls.len() > 0 {
		p.habit = max(p.habit, now.Sub(p.progress))
	}
	p.progress, p.said, p.late = now, now, false
}

// pop removes the oldest request.
func (p *Pipe) pop() {
	c := p.calls.head()
	p.log.pop(c.size, p.o.QueueLimit)
	if c.again {
		p.home.arrived(*c)
	}
	p.calls.pop()
	p.answered++
	p.counts.requests.Add(1)
	if p.o.ShedAfter > 0 {
		p.congestion.answered(p.loop.Now())
	}
}
