package pipe

import (
	"context"
	"fmt"
	"time"

	"lockproxy/cluster"
	"lockproxy/cluster/retry"
	"lockproxy/internal/loop"
	"lockproxy/internal/resp"
)

// Pipe is one connection to one node that carries the requests of many clients
// of one loop, or of a single one (Pool.Own), in order. It keeps the bytes of each request until its reply
// has come, so that a redirected request can be sent again.
type Pipe struct {
	pool  *Pool
	addr  string
	mode  Mode
	stats *nodeCounters

	leaving bool // it closes as soon as all is answered, or is released; see names.go

	conn    *loop.Conn       // nil while not connected
	self    cluster.Identity // of the connection, or of the last one; only if the pipe is shared
	as      *cluster.Login   // of the connection, or what it is about to take over; see renew.go
	renewAt time.Time        // not before
	dialing bool
	cancel  context.CancelFunc // of the dial
	retryAt time.Time          // no dial before
	dialErr error
	why     error // the reason this side closed the connection

	log        backlog // of the requests in calls
	calls      ring
	congestion congestion // only with Options.ShedAfter
	frame      resp.Framer
	inReply    bool // part of the head's reply has been delivered
	came       int  // how many bytes
	pace       pace
	inPush     bool          // inside a push message, which no request asked for
	since      time.Time     // the connection is there
	progress   time.Time     // when bytes came last, or the queue began
	habit      time.Duration // how long its node owed replies lately
	late       bool          // it owes one for longer
	asked      time.Time     // when its node was asked about it last; see forgotten.go
	said       time.Time     // when it was heard last, if only in the handshake
	retired    time.Time     // when its node left the topology, or zero
	shunned    time.Time     // if it is a replica's: no reads before
	proof      proof         // only if the pipe is shared

	stuck     bool // behind a script; see stuck.go
	crowded   int  // bytes of long replies since nothing was owed
	idleSigns int  // signs of life of its node since

	answered uint64           // requests
	aside    map[int64]*aside // by client: requests that may be sent again; see order.go
	asides   []*aside         // in the order in which they may

	waiting []func()        // to be called when the queue has become short
	loading map[string]bool // by SHA1: scripts that are on their way to the node

	// Of an owned pipe; see own.go.
	owner     Owner // nil: the pipe is shared
	party     Party // that the owner belongs to
	counted   bool  // for the party
	private   *privatePipe
	stream    *Stream // that is being sent; nothing else may be queued then
	dead      error   // why it is of no use any more
	ended     bool    // its owner has no more requests
	patient   bool
	silence   time.Duration // how long its node may owe a reply; 0: Options.Timeout
	proven    bool
	clientID  int64
	idleSince time.Time
}

// append queues one request. It allocates only when the log grows. c is the caller's again, changed.
func (p *Pipe) append(c *call, req []byte) {
	if p.conn == nil && !p.dialing && p.owner == nil {
		p.dial()
	}
	now := p.pool.loop.Now()
	if p.calls.len() == 0 {
		p.progress = now
		p.pool.late.lookSoon()
		p.proof.rest(now)
	} else if c.slot >= anySlot && p.owner == nil && p.conn != nil && p.proof.due(now) {
		p.proof.ask(p, now)
	}
	if c.script {
		p.pool.scripts.ahead(p, req)
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
	if p.pool.o.ShedAfter > 0 {
		p.congestion.queued(p.calls.len(), p.pool.loop.Now())
	}
	if p.conn != nil {
		p.conn.Flush()
	}
}

// precede queues the command that goes in front of c, if any.
func (p *Pipe) precede(c *call) {
	req := asking
	if c.before == sayPrivate {
		if req = p.mode.Own.setup.Before; len(req) == 0 { // the Setup has changed meanwhile
			c.before = nothing
			return
		}
	} else {
		c.before = nothing
	}
	p.append(&call{resend: true, slot: thisNode}, req)
}

// ask sends a question about the connection, of which its owner does not know. then gets the answer.
func (p *Pipe) ask(req []byte, then func(reply []byte, err error)) {
	p.append(&call{to: &Collector{Then: then}, slot: thisNode, raw: true, ours: true}, req)
}

// front queues the requests of a Setup in front of those that wait for the connection.
func (p *Pipe) front(reqs [][]byte) {
	calls, log := p.calls, p.log
	p.calls, p.log = ring{}, backlog{}
	p.private.send(reqs)
	for calls.len() > 0 {
		c := *calls.head()
		calls.pop()
		p.log.append(log.oldest(c.size))
		log.pop(c.size, 0)
		p.calls.push(&c)
	}
}

// queued is how many bytes of requests wait to be written or answered.
func (p *Pipe) queued() int { return p.log.size }

// Full says that clients which send to this pipe should not be read from now.
func (p *Pipe) Full() bool { return p.queued() > p.pool.o.QueueLimit }

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
	p.pool.late.heard(p)
	if p.stuck {
		p.pool.stuck.set(p, false)
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
		p.pool.stuck.crowd(p, 0)
	}
	if p.waiting != nil && p.queued() <= p.pool.o.QueueLimit/2 {
		p.wakeWaiting()
	}
	if p.leaving && p.owner == nil && p.calls.len() == 0 {
		p.hangUp(errReleased)
	}
	return used
}

// deliver gives chunk, a part of the oldest request's reply, to its receiver.
func (p *Pipe) deliver(chunk []byte, last bool) {
	if p.inPush || !p.inReply && chunk[0] == '>' {
		p.inPush = !last
		if p.owner != nil {
			p.owner.Push(chunk, last)
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
			chooses(p, p.calls.head(), chunk)
			(*order)(p).overtaken(p.calls.head())
			chunk = madeUp(p, chunk, false)
		} else if p.owner == nil && !p.mode.Second {
			p.pool.stuck.crowd(p, len(chunk))
		}
		if exceeds(p, chunk) {
			return
		}
		p.inReply = true
		switch c := p.calls.head(); {
		case c.slot == proving:
			p.proof.take(p, c.tag, chunk, false)
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
		p.stats.errors.Add(1)
		if c.raw && p.owner != nil && misled(p.addr, chunk) {
			p.leaving = true
		}
		if c.again { // it is under way no more, and must not stand in its own way
			p.pool.senders.ends(&c)
			p.calls.head().again = false
		}
		if !c.raw && p.pool.redirect(p, c, p.log.oldest(c.size), chunk) {
			(*order)(p).popUnanswered()
			return
		}
		chunk = madeUp(p, chunk, c.raw)
	}
	if len(p.asides) > 0 && !p.inReply {
		if (*order)(p).joins(&c, chunk) {
			(*order)(p).popUnanswered()
			return
		}
		(*order)(p).overtaken(&c)
	}
	p.inReply = false
	p.pop()
	if s, ok := c.to.(*Stream); ok {
		s.answered(p, &c)
	}
	switch {
	case c.slot == proving:
		p.proof.take(p, c.tag, chunk, true)
	case c.to != nil:
		c.to.Receive(c.tag, chunk, true)
	}
	if len(p.asides) > 0 {
		(*order)(p).goOn()
	}
	if p.private != nil {
		p.private.answered(c)
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

// pop removes the oldest request.
func (p *Pipe) pop() {
	c := p.calls.head()
	p.log.pop(c.size, p.pool.o.QueueLimit)
	if c.again {
		p.pool.senders.ends(c)
	}
	p.calls.pop()
	p.answered++
	p.stats.requests.Add(1)
	if p.pool.o.ShedAfter > 0 {
		p.congestion.answered(p.pool.loop.Now())
	}
}
