package pipe

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"lockproxy/cluster"
)

// This file makes connections; and when one ends, its requests fail or go elsewhere.

// How a pipe failed.
var (
	errSilent  = errors.New("no reply within upstream-timeout")
	errCrawls  = errors.New("a reply came too slowly, and others waited behind it")
	errLong    = errors.New("its reply is longer than any to this request")
	errRetired = errors.New("the node has left the topology")
)

// dial connects in the background.
func (p *Pipe) dial() {
	ctx, cancel := context.WithTimeout(context.Background(), p.pool.o.ConnectTimeout)
	p.dialing, p.cancel = true, cancel
	l, control, m := p.pool.loop, p.pool.control, p.mode.dialled()
	p.as = control.Login()
	var self *cluster.Identity
	switch {
	case p.owner == nil:
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
			if p.dead != nil { // ended meanwhile
				if err == nil {
					nc.Close()
				}
				return
			}
			if err == nil {
				switch {
				case p.owner == nil:
					p.self = *self
				case self != nil:
					p.clientID = self.Number
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
		p.proof.answer = p.proof.answer[:0]
		p.progress = p.pool.loop.Now()
		p.since, p.said = p.progress, p.progress
		p.stats.connects.Add(1)
		p.stats.up.Add(1)
		p.conn.Flush()
		p.pool.waiting.now(p.pool.loop.Now())
		if p.private.isPaused() {
			p.private.pause()
		}
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
	p.pool.outages.Feel(p.addr, cluster.Felt{Connections: 1, Err: err})
	p.pool.o.Log.Debug("node cannot be reached", "node", p.addr, "err", err)
	p.abandon(err)
}

// hangUp closes the connection from this side.
func (p *Pipe) hangUp(why error) {
	if p.conn == nil {
		return
	}
	if p.why == nil && errors.Is(why, cluster.ErrFraming) {
		p.stats.garbled.Add(1)
		p.pool.stats.garbled.Write(p.pool.o.Log, slog.LevelWarn, "node breaks the protocol", "node", p.addr,
			"requests", p.calls.len(), "err", why)
	}
	p.why = why
	p.conn.Close()
}

// Closed implements loop.Handler.
func (p *Pipe) Closed(err error) {
	p.conn = nil
	if p.why != errReleased && p.why != errIdle { // the node may have restarted
		p.pool.scripts.forget(p.addr)
	}
	p.self.Owed = p.calls.len() > 0
	p.stats.up.Add(-1)
	if p.why != nil {
		err = p.why
	}
	if p.owner != nil {
		if p.why == nil && !p.ended || p.why == errSilent {
			p.pool.control.Refresh()
		}
		p.failed(err)
		return
	}
	if err == errIdle || err == errUnfit && p.calls.len() == 0 {
		return
	}
	if !p.pool.closed && err != errReleased {
		if p.calls.len() > 0 {
			p.pool.outages.Feel(p.addr, cluster.Felt{Connections: 1, Err: err})
		}
		p.pool.o.Log.Debug("connection to node lost", "node", p.addr, "err", err, "requests", p.calls.len())
	}
	p.pool.control.Refresh()
	p.abandon(err)
}

// abandon settles every request of a connection that has ended. What was not written in full cannot have run
// and is sent again, and so is what may run twice. The others fail, and those whose senders handle that fail
// in any case.
func (p *Pipe) abandon(err error) {
	if p.crowded > 0 {
		p.pool.stuck.crowd(p, 0)
	}
	calls, log, cut := p.calls, p.log, p.inReply
	p.calls, p.log, p.inReply = ring{}, backlog{}, false
	o := (*order)(p)
	final, refused, busy := errors.Is(err, ErrRefused), refusedMode(err, p.mode), busy(err)
	for calls.len() > 0 {
		c := *calls.head()
		calls.pop()
		if c.again {
			p.pool.senders.ends(&c)
		}
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
			if cut || written {
				o.overtaken(&c)
			}
			c.ran = c.ran || cut || written
			p.pool.outages.Feel(p.addr, cluster.Felt{Failed: 1})
			c.to.Fail(c.tag, fmt.Errorf("%w: %w", c.outcome(), err))
		default:
			h := &held{call: c, req: req, err: err, fresh: written && !c.ran}
			h.ran = c.ran || written
			c.to.Detour(c.tag)
			if written && harmless(&c) {
				o.overtaken(&c)
				c.to.(Repeater).Repeated(c.tag)
			}
			o.lost(h)
		}
		cut = false
	}
	o.abandon()
	p.wakeWaiting()
	if errors.Is(err, errRetired) || !p.retired.IsZero() && errors.Is(err, context.Canceled) {
		// other nodes can take them
		p.pool.newsSoon()
	}
}

// This file renews logins. The node may end connections that authenticated too long ago, so AUTH with a new
// password goes behind what was sent:
//
//	patrol --> renewLogin --> AUTH --> +OK, which is not passed on
//
// The node does not read from a connection while a command blocks there, and between MULTI and EXEC it would
// queue AUTH. Such a connection takes over the new password afterwards.

// renewAgain is the pause before a node that has refused a login gets it again.
const renewAgain = 10 * time.Second

// renewLogin makes the connection take over a newer login, if there is one.
func (p *Pipe) renewLogin() {
	now := p.pool.control.Login()
	if now == p.as || p.conn == nil || p.patient || p.mode.special() || p.whole() ||
		p.pool.loop.Now().Before(p.renewAt) {
		return
	}
	before := p.as
	p.as = now
	if req := cluster.Renewal(before, now); req != nil {
		p.ask(req, p.loggedIn)
	}
}

// loggedIn takes the answer to AUTH; nil if there is none.
func (p *Pipe) loggedIn(reply []byte, _ error) {
	if reply == nil || !isErrorReply(reply) {
		return
	}
	if p.pool.refused != p.as {
		p.pool.refused = p.as
		p.pool.o.Log.Warn(cluster.NotRenewed, "node", p.addr,
			"err", cluster.Explain(cluster.Said(string(trimLine(reply[1:])))))
	}
	p.as, p.renewAt = nil, p.pool.loop.Now().Add(renewAgain)
}

// whole says that nothing may be sent between the requests of the owner.
func (p *Pipe) whole() bool {
	if p.stream != nil {
		return true
	}
	owner := p.owner
	if p.private != nil {
		owner = p.private.owner
	}
	w, ok := owner.(Whole)
	return ok && w.Whole()
}
