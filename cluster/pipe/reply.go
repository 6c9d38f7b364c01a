package pipe

import (
	"bytes"
	"fmt"

	"lockproxy/cluster"
	"lockproxy/cluster/pipe/owned"
	"lockproxy/cluster/retry"
	"lockproxy/internal/resp"
)

// This file takes replies.

// Read implements loop.Handler. It gives each whole reply, or what has come of it, to its request, and leaves
// nothing of a reply unconsumed but what the framer cannot tell yet.
func (p *Pipe) Read(buf []byte) int {
	p.noteHeard()
	if p.stuck {
		p.home.setStuck(p, false)
	}
	used := 0
	for used < len(buf) && p.conn != nil {
		n, done, err := p.frame.Next(buf[used:])
		if err != nil {
			p.hangUp(fmt.Errorf("%w: %w", cluster.ErrFraming, err))
			break
		}
		// the framer needs more than that to tell where it ends
		if n == 0 && !done {
			break
		}
		p.deliver(buf[used:used+n], done)
		used += n
	}
	p.pace.Came(used)
	if p.crowded > 0 && p.calls.Len() == 0 {
		p.home.crowd(p, 0)
	}
	if p.waiting != nil && p.queued() <= p.o.QueueLimit/2 {
		p.wakeWaiting()
	}
	if p.leaving && p.Conn == nil && p.calls.Len() == 0 {
		p.hangUp(owned.ErrReleased)
	}
	return used
}

// deliver gives chunk, a part of the oldest request's reply, to its receiver. last says that it ends with
// chunk. Pushes come in between replies, never inside of one. Whoever gets it may send, or end the pipe: so
// the request is taken out before.
func (p *Pipe) deliver(chunk []byte, last bool) {
	if p.inPush || !p.inReply && chunk[0] == '>' {
		p.inPush = !last
		if p.Conn != nil {
			p.Push(chunk, last)
		}
		return
	}
	if p.calls.Len() == 0 {
		p.hangUp(fmt.Errorf("%w: a reply that nothing asked for", cluster.ErrFraming))
		return
	}
	p.pace.Ended(last)
	if !last {
		if !p.inReply {
			// The beginning shows how long it is, and that the request has run: so what its client has sent
			// before it, and is aside, must not run any more.
			p.home.refuseOvertaken(p, *p.calls.Head())
			p.home.letChoose(p, p.calls.Head(), chunk)
			chunk = madeUp(p, chunk, false)
		} else if p.Conn == nil && !p.mode.Second {
			p.home.crowd(p, len(chunk))
		}
		if exceeds(p, chunk) {
			return
		}
		p.inReply = true
		p.passReply(p.calls.Head(), chunk, false)
		return
	}
	c := *p.calls.Head()
	if !p.log.Written(c.size) {
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
		// What becomes of the request is for its owner to say. The next owner shall get a connection to where
		// the name leads by now.
		if c.raw && p.Conn != nil && misled(p.addr, chunk) {
			p.leaving = true
		}
		if c.again { // it is under way no more, and must not stand in its own way
			p.home.senders.noteEnded(&c)
			p.calls.Head().again = false
		}
		// It is sent again, put aside, or asked about: its receiver does not hear of this reply.
		if !c.raw && p.home.redirect(p, c, p.log.Oldest(c.size), chunk) {
			popUnanswered(p)
			return
		}
		chunk = madeUp(p, chunk, c.raw)
	}
	// It has run: that ends the hope of what is aside before it, unless it only reads, and can be read once
	// more.
	if len(p.order.all) > 0 && !p.inReply {
		if p.home.joinAside(p, c, chunk) {
			popUnanswered(p)
			return
		}
		p.home.refuseOvertaken(p, c)
	}
	p.inReply = false
	p.popOldest()
	if to, ok := c.to.(*Stream); ok {
		to.answered(p, c.astray)
	}
	p.passReply(&c, chunk, true)
	if len(p.order.all) > 0 {
		p.home.goOn(p)
	}
	p.Answered(c.to != nil, c.astray)
}

// passReply gives a part of a reply to whom it is for. The reply to a question proves that replies belong to
// their requests.
func (p *Pipe) passReply(c *call, chunk []byte, last bool) {
	switch {
	case c.slot == proving:
		if err := p.proof.Take(c.tag, chunk, last); err != nil {
			p.hangUp(err)
		}
	case c.to != nil:
		c.to.Receive(c.tag, chunk, last)
	}
}

// madeUp is an error, or the beginning of a long one, without what would send a client to another node: no
// node says that here, and a client would follow. good: its receiver goes to the nodes that it names.
func madeUp(p *Pipe, chunk []byte, good bool) []byte {
	if good && retry.IsRedirect(chunk) {
		_, to := retry.ErrorOf(chunk)
		if _, _, ok := retry.ParseRedirect(to, p.addr); ok {
			return chunk
		}
	}
	return retry.Plain(chunk)
}

// exceeds counts chunk, a part of the oldest request's reply, and hangs up if its receiver takes less.
func exceeds(p *Pipe, chunk []byte) bool {
	c, size := p.calls.Head(), 0
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

// announced is how long the reply is that begins with chunk, if it is a string; otherwise 0.
func announced(chunk []byte) int {
	if chunk[0] != '$' {
		return 0
	}
	line, _, _ := bytes.Cut(chunk[1:], []byte("\r\n"))
	n, _ := resp.Integer(line)
	return int(n)
}

// cutOff hangs up inside of a reply, whose request fails and is not asked again.
func cutOff(p *Pipe, why error) {
	p.calls.Head().raw = true
	p.hangUp(why)
}

// popUnanswered removes the oldest request, whose reply does not concern its client.
func popUnanswered(p *Pipe) {
	p.popOldest()
	p.home.goOn(p)
	p.Answered(false, false)
}

// noteHeard notes that the node has sent something. A node that owes nothing and speaks is no sign of how
// long it takes.
func (p *Pipe) noteHeard() {
	now := p.loop.Now()
	if p.calls.Len() > 0 {
		p.habit = max(p.habit, now.Sub(p.progress))
	}
	p.progress, p.said, p.late = now, now, false
}

// popOldest removes the oldest request. Its bytes may be overwritten from now on.
func (p *Pipe) popOldest() {
	c := p.calls.Head()
	p.log.Pop(c.size, p.o.QueueLimit)
	if c.again {
		p.home.senders.noteEnded(c)
	}
	p.calls.Pop()
	p.answered++
	p.counts.requests.Add(1)
	if p.o.ShedAfter > 0 {
		p.congestion.Answered(p.loop.Now())
	}
}

// misled says that reply, an error of the node at addr, may mean that its name leads elsewhere by now.
func misled(addr string, reply []byte) bool {
	r, rest := retry.ErrorOf(reply)
	if r == nil || !cluster.Named(addr) {
		return false
	}
	switch r.Counts {
	case retry.ReadOnly, retry.MasterDown, retry.Loading:
		return true
	case retry.Moved:
		_, to, ok := retry.ParseRedirect(rest, addr)
		return ok && to == addr
	}
	return false
}
