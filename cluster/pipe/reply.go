package pipe

import (
	"errors"
	"fmt"
	"lockproxy/cluster"
	"lockproxy/cluster/pipe/owned"
	"lockproxy/cluster/retry"
	"lockproxy/internal/resp"
	"log/slog"
	"time"
)

// This file takes replies.

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
	if to, ok := c.to.(answered); ok {
		to.answered(p, c.astray)
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

// This file ends connections, and keeps their logins fresh.

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
