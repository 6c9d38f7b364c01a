package pipe

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"lockproxy/cluster"
	"lockproxy/cluster/pipe/owned"
)

// This file makes connections; and when one ends, its requests fail or go elsewhere.

// dial connects in the background.
func (p *Pipe) dial() {
	ctx, cancel := context.WithTimeout(context.Background(), p.o.ConnectTimeout)
	p.dialing, p.cancel = true, cancel
	l, control, m := p.loop, p.control, p.mode.dialled()
	p.as = control.Login()
	var self *cluster.Identity
	switch {
	case p.Conn == nil:
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
			if p.Dead() != nil { // ended meanwhile
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

func (p *Pipe) dialed(err error) {
	if err == nil {
		p.dialErr, p.why, p.retryAt = nil, nil, time.Time{}
		p.frame.Reset()
		p.inReply, p.inPush = false, false
		p.proof.answer = p.proof.answer[:0]
		p.progress = p.loop.Now()
		p.since, p.said = p.progress, p.progress
		p.counts.connects.Add(1)
		p.counts.up.Add(1)
		p.conn.Flush()
		p.home.connected()
		if p.Conn != nil {
			p.Connected()
		}
		return
	}
	refused := refusedMode(err, p.mode) != nil
	if p.Conn != nil {
		if !refused {
			p.counts.dialErrors.Add(1)
			p.Refresh()
		}
		p.Failed(err)
		return
	}
	if refused {
		p.home.abandon(p, err)
		return
	}
	p.dialErr = err
	p.retryAt = p.loop.Now().Add(redialAfter)
	p.counts.dialErrors.Add(1)
	p.Refresh()
	p.felt.Feel(p.addr, cluster.Felt{Connections: 1, Err: err})
	p.o.Log.Debug("node cannot be reached", "node", p.addr, "err", err)
	p.home.abandon(p, err)
}

// hangUp closes the connection from this side.
func (p *Pipe) hangUp(why error) {
	if p.conn == nil {
		return
	}
	if p.why == nil && errors.Is(why, cluster.ErrFraming) {
		p.counts.garbled.Add(1)
		p.stats.garbled.Write(p.o.Log, slog.LevelWarn, "node breaks the protocol", "node", p.addr,
			"requests", p.calls.len(), "err", why)
	}
	p.why = why
	p.conn.Close()
}

// Closed implements loop.Handler.
func (p *Pipe) Closed(err error) {
	p.conn = nil
	if p.crowded > 0 {
		p.home.crowd(p, 0)
	}
	if p.why != owned.ErrReleased && p.why != errIdle { // the node may have restarted
		p.home.restarted(p.addr)
	}
	p.self.Owed = p.calls.len() > 0
	p.counts.up.Add(-1)
	if p.why != nil {
		err = p.why
	}
	if p.Conn != nil {
		if p.why == nil && !p.Ended() || p.why == errSilent {
			p.Refresh()
		}
		p.Failed(err)
		return
	}
	if err == errIdle || err == errUnfit && p.calls.len() == 0 {
		return
	}
	if !p.closed && err != owned.ErrReleased {
		if p.calls.len() > 0 {
			p.felt.Feel(p.addr, cluster.Felt{Connections: 1, Err: err})
		}
		p.o.Log.Debug("connection to node lost", "node", p.addr, "err", err, "requests", p.calls.len())
	}
	p.Refresh()
	p.home.abandon(p, err)
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
	now := p.control.Login()
	if now == p.as || p.conn == nil || p.stream != nil || p.loop.Now().Before(p.renewAt) {
		return
	}
	if p.Conn != nil {
		if _, blocks := p.Patience(0); blocks || p.Special() || p.Whole() {
			return
		}
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
	if p.refused != p.as {
		p.refused = p.as
		p.o.Log.Warn(cluster.NotRenewed, "node", p.addr,
			"err", cluster.Explain(cluster.Said(string(trimLine(reply[1:])))))
	}
	p.as, p.renewAt = nil, p.loop.Now().Add(renewAgain)
}
