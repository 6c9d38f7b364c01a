package pipe

import (
	"context"
	"errors"
	"fmt"
	"time"

	"lockproxy/cluster"
	"lockproxy/cluster/retry"
	"lockproxy/internal/loop"
	"lockproxy/internal/resp"
)

// Receiver takes the replies of the requests that it sent. All methods run on
// the loop and must not block; they may send further requests.
type Receiver interface {
	// Receive is given the reply to request tag, as it came, in one or more
	// chunks; last marks the end of it. chunk is valid during the call. An
	// error reply comes as one chunk.
	Receive(tag uint32, chunk []byte, last bool)
	// Fail says that no reply, or no more of it, will come. err wraps
	// ErrUnknownOutcome or ErrUnavailable.
	Fail(tag uint32, err error)
	// Discard says that what came of the reply to a request that may be sent again was cut
	// off. The receiver forgets it, for the reply will come anew; or it says false if it
	// has passed it on: then Fail follows.
	Discard(tag uint32) bool
	// Detour says that the request is going to be sent once more, so that
	// requests sent after it may overtake it.
	Detour(tag uint32)
}

// How a pipe failed.
var (
	errSilent  = errors.New("no reply within upstream-timeout")
	errRetired = errors.New("the node has left the topology")
)

// call is one request on its way.
type call struct {
	to       Receiver // nil: nobody wants the reply (ASKING)
	deadline time.Duration
	size     int // bytes of the request in the log
	tag      uint32
	slot     int16 // or anySlot, thisNode
	resend   bool  // may be sent again when the reply was lost
	try      retry.Tries
	cuts     uint8 // connections that ended inside of it, if it is large
	healed   bool  // the script it needs was loaded for it
	ran      bool  // perhaps: it was written once, and its reply was lost
	raw      bool  // who sent it deals with errors and with the loss of the connection
	astray   bool  // it was sent to where ASK said
	doubted  bool  // it was sent again although it may have run: see doubt.go
	believed bool  // it has not run, whatever its reply says
	lasting  bool  // nobody writes to its bytes any more: they are not copied
	before   before
}

// outcome is what a request that gets no reply came to.
func (c *call) outcome() error {
	if c.ran {
		return cluster.ErrUnknownOutcome
	}
	return cluster.ErrUnavailable
}

// before is what stands in front of a request on its connection.
type before uint8

const (
	nothing    before = iota
	sayAsking         // ASKING, once
	sayPrivate        // Setup.Before, each time it is sent
)

const (
	anySlot  = -1 // any master will do
	thisNode = -2 // only the node of this pipe
)

// Pipe is one connection to one node that carries the requests of many clients
// of one loop, or of a single one (Pool.Own), in order. It keeps the bytes of each request until its reply
// has come, so that a redirected request can be sent again.
type Pipe struct {
	pool  *Pool
	addr  string
	mode  Mode
	stats *nodeCounters

	conn    *loop.Conn       // nil while not connected
	self    cluster.Identity // of the connection, or of the last one; only if the pipe is shared
	dialing bool
	cancel  context.CancelFunc // of the dial
	retryAt time.Time          // no dial before
	dialErr error
	why     error // the reason this side closed the connection

	log      backlog // of the requests in calls
	calls    ring
	frame    resp.Framer
	inReply  bool      // part of the head's reply has been delivered
	inPush   bool      // inside a push message, which no request asked for
	progress time.Time // when bytes came last, or the queue began
	retired  time.Time // when its node left the topology, or zero
	shunned  time.Time // no reads before, if it is a replica's

	stuck     bool // behind a script; see stuck.go
	idleSigns int  // that came from its node since

	waiting []func()        // to be called when the queue has become short
	loading map[string]bool // by SHA1: scripts that are on their way to the node

	// Of a pipe that somebody has for itself; see own.go.
	owner     Owner // nil: the pipe is shared
	party     Party // that the owner belongs to
	counted   bool  // for the party
	private   *privatePipe
	dead      error // why it is of no use any more
	patient   bool
	silence   time.Duration // how long its node may owe a reply; 0: Options.Timeout
	proven    bool
	clientID  int64
	idleSince time.Time
}

// append queues one request. It allocates only when the log grows.
func (p *Pipe) append(c call, req []byte) {
	if p.conn == nil && !p.dialing && p.owner == nil {
		p.dial()
	}
	if p.calls.len() == 0 {
		p.progress = p.pool.loop.Now()
	}
	if c.before != nothing {
		p.precede(&c)
	}
	if c.lasting {
		p.log.keep(req)
	} else {
		p.log.append(req)
	}
	c.size = len(req)
	p.calls.push(c)
	if p.conn != nil {
		p.conn.Flush()
	}
}

// precede queues what stands in front of c.
func (p *Pipe) precede(c *call) {
	req := asking
	if c.before == sayPrivate {
		req = p.mode.Own.setup.Before
	} else {
		c.before = nothing
	}
	p.append(call{resend: true, slot: thisNode}, req)
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
		p.calls.push(c)
	}
}

// queued is how many bytes of requests wait to be written or answered.
func (p *Pipe) queued() int { return p.log.size }

// Full says that clients which feed this pipe should not be read from now.
func (p *Pipe) Full() bool { return p.queued() > p.pool.o.QueueLimit }

// WhenReady has ready called, on the loop, once the queue has become short.
func (p *Pipe) WhenReady(ready func()) { p.waiting = append(p.waiting, ready) }

func (p *Pipe) wakeWaiting() {
	waiting := p.waiting
	p.waiting = nil
	for _, ready := range waiting {
		ready()
	}
}

// Output implements loop.Handler.
func (p *Pipe) Output() []byte { return p.log.output() }

// Wrote implements loop.Handler.
func (p *Pipe) Wrote(n int) { p.log.sent += n }

// Read implements loop.Handler.
func (p *Pipe) Read(buf []byte) int {
	p.progress = p.pool.loop.Now()
	if p.stuck {
		p.pool.setStuck(p, false)
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
	if p.waiting != nil && p.queued() <= p.pool.o.QueueLimit/2 {
		p.wakeWaiting()
	}
	return used
}

// deliver gives chunk, a part of the oldest request's reply, to whom it belongs.
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
	if !last {
		p.inReply = true
		if c := p.calls.head(); c.to != nil {
			c.to.Receive(c.tag, chunk, false)
		}
		return
	}
	c := *p.calls.head()
	if !p.log.written(c.size) {
		// Redis refuses a command by its first bytes, and closes. What of it
		// is still to be written would be taken for commands.
		defer p.hangUp(cluster.ErrHasty)
	}
	if !p.inReply && chunk[0] == '-' && c.to != nil {
		p.stats.errors.Add(1)
		if !c.raw && p.pool.redirect(p, c, p.log.oldest(c.size), chunk) {
			p.pop()
			if p.private != nil {
				p.private.answered(call{})
			}
			return
		}
		if !c.raw && isRedirect(chunk) { // of nobody but a script: a client would follow it
			chunk = append([]byte("-ERR "), chunk[1:]...)
		}
	}
	p.inReply = false
	p.pop()
	if c.to != nil {
		c.to.Receive(c.tag, chunk, true)
	}
	if p.private != nil {
		p.private.answered(c)
	}
}

// pop forgets the oldest request.
func (p *Pipe) pop() {
	p.log.pop(p.calls.head().size, p.pool.o.QueueLimit)
	p.calls.pop()
	p.stats.requests.Add(1)
}

// dial connects in the background.
func (p *Pipe) dial() {
	ctx, cancel := context.WithTimeout(context.Background(), p.pool.o.ConnectTimeout)
	p.dialing, p.cancel = true, cancel
	l, control, m := p.pool.loop, p.pool.control, p.mode.dialled()
	var self *cluster.Identity
	if p.owner == nil {
		last := p.self
		self = &last
	}
	go func() { // ends with the dial's time-out at the latest
		nc, err := control.Dial(ctx, p.addr, m, self)
		cancel()
		posted := l.Post(func() {
			p.dialing = false
			if p.dead != nil { // ended meanwhile
				if err == nil {
					nc.Close()
				}
				return
			}
			if err == nil {
				if self != nil {
					p.self = *self
				}
				p.conn, err = l.Add(nc, p)
			}
			p.dialed(err)
		})
		if !posted && err == nil {
			nc.Close()
		}
	}()
}

func (p *Pipe) dialed(err error) {
	if err == nil {
		p.dialErr, p.why, p.retryAt = nil, nil, time.Time{}
		p.frame.Reset()
		p.inReply, p.inPush = false, false
		p.progress = p.pool.loop.Now()
		p.stats.connects.Add(1)
		p.stats.up.Add(1)
		p.conn.Flush()
		return
	}
	refused := refusedMode(err, p.mode) != nil
	if p.owner != nil {
		if !refused {
			p.stats.dialErrors.Add(1)
			p.pool.control.Refresh()
		}
		p.failed(err)
		return
	}
	if refused {
		p.abandon(err)
		return
	}
	p.dialErr = err
	p.retryAt = p.pool.loop.Now().Add(redialAfter)
	p.stats.dialErrors.Add(1)
	p.pool.control.Refresh()
	p.pool.o.Log.Warn("node cannot be reached", "node", p.addr, "err", err)
	p.abandon(err)
}

// hangUp closes the connection for a reason of ours.
func (p *Pipe) hangUp(why error) {
	if p.conn != nil {
		p.why = why
		p.conn.Close()
	}
}

// Closed implements loop.Handler.
func (p *Pipe) Closed(err error) {
	p.conn = nil
	p.self.Owed = p.calls.len() > 0
	p.stats.up.Add(-1)
	if p.why != nil {
		err = p.why
	}
	if p.owner != nil {
		if p.why == nil || p.why == errSilent {
			p.pool.control.Refresh()
		}
		p.failed(err)
		return
	}
	if err == errIdle || err == errUnfit && p.calls.len() == 0 {
		return
	}
	if !p.pool.closed && err != errReleased {
		p.pool.o.Log.Warn("connection to node lost", "node", p.addr, "err", err, "requests", p.calls.len())
	}
	p.pool.control.Refresh()
	p.abandon(err)
}

// abandon settles every request of a connection that is no more: what was not
// written in full cannot have run and is sent again, like what may run twice;
// the others fail, and those that their senders deal with.
func (p *Pipe) abandon(err error) {
	calls, log, cut := p.calls, p.log, p.inReply
	p.calls, p.log, p.inReply = ring{}, backlog{}, false
	final, refused, busy := errors.Is(err, ErrRefused), refusedMode(err, p.mode), busy(err)
	for calls.len() > 0 {
		c := *calls.head()
		calls.pop()
		req, written := log.oldest(c.size), log.written(c.size)
		if c.size > cluster.MaxShared && !written && log.begun() {
			c.cuts++
		}
		log.pop(c.size, 0)
		switch {
		case c.to == nil:
		case c.cuts >= largeTries && !c.raw:
			c.to.Fail(c.tag, fmt.Errorf("%w: %w", c.outcome(), errCutLarge))
		case refused != nil && !c.ran:
			c.to.Fail(c.tag, refused)
		case busy != nil && !c.ran:
			c.to.Receive(c.tag, busy, true)
		case c.raw || final, (cut || written) && !c.resend, cut && !c.to.Discard(c.tag):
			c.ran = c.ran || cut || written
			c.to.Fail(c.tag, fmt.Errorf("%w: %w", c.outcome(), err))
		default:
			if written && !c.ran { // however late it is, the next connection can tell what became of it
				c.deadline = max(c.deadline, p.pool.since()+p.pool.o.ConnectTimeout)
			}
			c.ran = c.ran || written
			c.to.Detour(c.tag)
			p.pool.later(p.addr, p.mode, c, req, nil, err)
		}
		cut = false
	}
	p.wakeWaiting()
}
