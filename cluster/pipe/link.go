package pipe

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"time"

	"lockproxy/cluster"
	"lockproxy/cluster/pipe/owned"
	"lockproxy/internal/loop"
)

// This file is about the connection of a pipe, from the dial to its end.

// Why a connection ends, or could not be had.
var (
	errSilent = errors.New("no reply within upstream-timeout")
	errCrawls = errors.New("a reply came too slowly, and others waited behind it")
	errLong   = errors.New("its reply is longer than any to this request")
	errIdle   = errors.New("nobody used it")
	errUnfit  = errors.New("the replica is not fit to be read from") // its reads go elsewhere
)

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
	leaving bool  // it closes as soon as all is answered, or is released; see shared.go

	since    time.Time     // the connection is there
	progress time.Time     // when bytes came last, or the queue began
	habit    time.Duration // how long its node owed replies lately
	late     bool          // it owes one for longer
	asked    time.Time     // when its node was asked about it last; see forgotten.go
	said     time.Time     // when it was heard last, if only in the handshake
	retired  time.Time     // when its node left the topology, or zero
	shunned  time.Time     // if it is a replica's: no reads before
}

// noteRetired notes when the node left the topology, if it has. It is called with each topology; the first
// time without the node counts.
func (l *link) noteRetired(gone bool, now time.Time) {
	switch {
	case !gone:
		l.retired = time.Time{}
	case l.retired.IsZero():
		l.retired = now
	}
}

// dialNode connects in the background. The loop goes on meanwhile, and requests wait in the log. Of a shared
// pipe the identity of the last connection goes along: the node ends that one before it gets anything again.
func (p *Pipe) dialNode() {
	ctx, cancel := context.WithTimeout(context.Background(), p.o.ConnectTimeout)
	p.dialing, p.cancel = true, cancel
	l, control, m := p.loop, p.control, p.mode.dialled()
	p.as = control.Login()
	var self *cluster.Identity
	switch {
	case p.Conn == nil:
		// a copy, for the dial is not on the loop
		last := p.self
		self = &last
	case m.As != nil:
		self = &cluster.Identity{}
	}
	go func() { // ends with the dial's time-out at the latest
		nc, err := control.Dial(ctx, p.addr, m, self)
		cancel()
		posted := l.Post(func() {
			p.dialing = false
			if p.Dead() != nil || p.closed { // ended meanwhile
				if err == nil {
					nc.Close()
				}
				return
			}
			if err == nil {
				switch {
				case p.Conn == nil:
					p.self = *self
				case self != nil:
					p.SetClientID(self.Number)
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

// dialed is told how the dial ended: p.conn is there, or err says why not. Then all requests are settled.
// Those of a shared pipe are sent again after a pause; until retryAt nobody dials.
func (p *Pipe) dialed(err error) {
	if err == nil {
		p.dialErr, p.why, p.retryAt = nil, nil, time.Time{}
		if p.frame.Reset(); p.o.Within != nil {
			p.frame = p.o.Within.Framer()
		}
		p.inReply, p.inPush = false, false
		p.proof.Begin()
		p.progress = p.loop.Now()
		p.since, p.said = p.progress, p.progress
		p.counts.connects.Add(1)
		p.counts.up.Add(1)
		p.conn.Flush()
		p.home.waiting.tryNow(p.loop.Now())
		if p.Conn != nil {
			p.Connected()
		}
		return
	}
	// A node that refuses the mode works: that is no reason to ask for the topology.
	refused := refusedMode(err, p.mode) != nil
	if !refused {
		p.counts.dialErrors.Add(1)
		p.Refresh()
	}
	if p.Conn != nil {
		p.Failed(err)
		return
	}
	if !refused {
		p.dialErr = err
		p.retryAt = p.loop.Now().Add(redialAfter)
		p.felt.Feel(p.addr, cluster.Felt{Connections: 1, Err: err})
		p.o.Log.Debug("node cannot be reached", "node", p.addr, "err", err)
	}
	p.home.abandonRequests(p, err)
}

// notRun is a ModeError for a request that has not run because of it. It wraps ErrUnavailable too.
type notRun struct{ *cluster.ModeError }

func (e notRun) Unwrap() []error { return []error{e.ModeError, cluster.ErrUnavailable} }

// refusedMode is the error of a node that will not be put into mode m, if err is one. A replica is not asked
// twice either, but its master is.
func refusedMode(err error, m Mode) error {
	if refused, ok := errors.AsType[*cluster.ModeError](err); ok && !m.Replica {
		return notRun{refused}
	}
	return nil
}

// Logins are renewed. The node may end connections that authenticated too long ago, so AUTH with a new
// password goes behind what was sent:
//
//	patrolShared, patrolOwn --> renewLogin --> AUTH --> +OK, which is not passed on
//
// The node does not read from a connection while a command blocks there, and between MULTI and EXEC it would
// queue AUTH. Such a connection takes over the new password afterwards.

// renewAgain is the pause before a node that has refused a login gets it again.
const renewAgain = 10 * time.Second

// renewLogin makes the connection take over a newer login, if there is one. Pointers are compared: a renewed
// login is another one.
func (p *Pipe) renewLogin() {
	now := p.control.Login()
	if now == p.as || p.conn == nil || p.stream != nil || p.loop.Now().Before(p.renewAt) {
		return
	}
	if p.Patient() || p.Special() || p.Conn != nil && p.Whole() {
		return
	}
	before := p.as
	p.as = now
	if req := cluster.Renewal(before, now); req != nil {
		p.askNode(req, p.loggedIn)
	}
}

// loggedIn takes the answer to AUTH; nil if there is none. A refusal is logged once for all pipes of the
// loop, and tried again later, for the node may learn the password after the proxy.
func (p *Pipe) loggedIn(reply []byte, _ error) {
	if reply == nil || !isErrorReply(reply) {
		return
	}
	if p.refused != p.as {
		p.refused = p.as
		p.o.Log.Warn(cluster.NotRenewed, "node", p.addr,
			"err", cluster.Explain(cluster.Said(string(bytes.TrimRight(reply[1:], "\r\n")))))
	}
	p.as, p.renewAt = nil, p.loop.Now().Add(renewAgain)
}

// isErrorReply says that reply is an error; "!" is a long one of RESP3.
func isErrorReply(reply []byte) bool { return reply[0] == '-' || reply[0] == '!' }

// hangUp closes the connection from this side. Closed follows, perhaps before it returns, and knows why by
// p.why. It does nothing without a connection.
func (p *Pipe) hangUp(why error) {
	if p.conn == nil {
		return
	}
	if p.why == nil && errors.Is(why, cluster.ErrFraming) {
		p.counts.garbled.Add(1)
		p.stats.garbled.Write(p.o.Log, slog.LevelWarn, "node breaks the protocol", "node", p.addr,
			"requests", p.calls.Len(), "err", why)
	}
	p.why = why
	p.conn.Close()
}

// EOF implements loop.HalfCloser: what the node has said before its end is passed on, though nothing was read
// because a client took nothing.
func (p *Pipe) EOF() bool {
	if p.Paused() {
		p.conn.Resume()
	}
	return false
}

// Closed implements loop.Handler. What is owed is settled here: a connection of one client ends with it, a
// shared one is made again when it is needed.
func (p *Pipe) Closed(err error) {
	p.conn = nil
	if p.crowded > 0 {
		p.home.crowd(p, 0)
	}
	if p.why != owned.ErrReleased && p.why != errIdle { // the node may have restarted
		p.home.scripts.Forget(p.addr)
	}
	// Only then does the next connection have to end this one at the node.
	p.self.Owed = p.calls.Len() > 0
	p.counts.up.Add(-1)
	if p.why != nil {
		err = p.why
	}
	if p.Conn != nil {
		// The node has closed it, or hangs: it may be a master no more.
		if p.why == nil && !p.Ended() || p.why == errSilent {
			p.Refresh()
		}
		p.Failed(err)
		return
	}
	if err == errIdle || err == errUnfit && p.calls.Len() == 0 {
		return
	}
	if !p.closed && err != owned.ErrReleased {
		if p.calls.Len() > 0 {
			p.felt.Feel(p.addr, cluster.Felt{Connections: 1, Err: err})
		}
		p.o.Log.Debug("connection to node lost", "node", p.addr, "err", err, "requests", p.calls.Len())
	}
	p.Refresh()
	p.home.abandonRequests(p, err)
}
