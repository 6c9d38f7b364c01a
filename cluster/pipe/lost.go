package pipe

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"strings"

	"lockproxy/cluster"
	"lockproxy/cluster/pipe/owned"
	"lockproxy/cluster/pipe/queue"
	"lockproxy/cluster/pipe/script"
	"lockproxy/cluster/retry"
)

// This file decides what becomes of requests whose connection has ended, and of those that were put aside
// (order.go).

// largeTries is how often a node may close the connection inside a large request. A server that finds it too
// long does so each time; once may be chance.
const largeTries = 3

// abandonRequests settles every request of a connection that has ended. What was not written in full cannot
// have run and is sent again, and so is what may run twice. The others fail, and those whose senders handle
// that fail in any case.
func (r *retrier) abandonRequests(p *Pipe, err error) {
	calls, log, cut := p.calls, p.log, p.inReply
	// The pipe is empty before anybody is told: receivers may send over it at once.
	p.calls, p.log, p.inReply = queue.Ring[call]{}, queue.Backlog{}, false
	final, refused, busy := errors.Is(err, owned.ErrRefused), refusedMode(err, p.mode), busyReply(err)
	for calls.Len() > 0 {
		c := calls.Pop()
		if c.again {
			r.senders.noteEnded(&c)
		}
		req, written := log.Oldest(c.size), log.Written(c.size)
		if c.size > cluster.MaxShared && !written && log.Begun() {
			c.cuts++
		}
		log.Pop(c.size, 0)
		switch {
		case c.to == nil: // ASKING, or a reply that was dropped: nobody waits
		case c.cuts >= largeTries && !c.raw: // the node finds it too long
			c.to.Fail(c.tag, fmt.Errorf("%w: %w", c.outcome(), errCutLarge))
		case busy != nil && !c.ran:
			c.to.Receive(c.tag, busy, true)
		case refused != nil && !c.ran: // the next connection would be refused, too
			c.to.Fail(c.tag, refused)
		case c.raw || final, (cut || written) && !c.resend, cut && !c.to.Discard(c.tag):
			if cut || written {
				r.refuseOvertaken(p, c)
			}
			c.ran = c.ran || cut || written
			r.felt.Feel(p.addr, cluster.Felt{Failed: 1})
			c.to.Fail(c.tag, fmt.Errorf("%w: %w", c.outcome(), err))
		default:
			// req lies in the log, which is ours alone now: nothing is appended to it any more.
			h := &heldRequest{call: c, req: req, err: err, fresh: written && !c.ran}
			h.ran = c.ran || written
			c.to.Detour(c.tag)
			if written && harmless(&c) {
				r.refuseOvertaken(p, c)
				c.to.(Repeater).Repeated(c.tag)
			}
			if client, _, _ := orderOf(&c); client == 0 {
				r.sendLater(p, h)
			} else { // until it is known what is behind it
				r.keepAside(p, h)
			}
		}
		cut = false
	}
	for all := r.takeAside(p, math.MaxUint64); all != nil; all = r.takeAside(p, math.MaxUint64) {
		for _, h := range all {
			r.sendLater(p, h)
		}
	}
	p.wakeWaiting()
	if errors.Is(err, owned.ErrRetired) || !p.retired.IsZero() && errors.Is(err, context.Canceled) {
		// other nodes can take them
		r.newsSoon()
	}
}

// busyReply is the reply of a node that could not put a new connection into its mode because of a script; nil
// for other errors. Every request would have got that reply.
func busyReply(err error) []byte {
	if node, ok := errors.AsType[cluster.NodeError](err); ok && strings.HasPrefix(node.Err.Error(), "BUSY ") {
		return []byte("-" + node.Err.Error() + "\r\n")
	}
	return nil
}

// takeAside takes what is aside for the client whose turn it is, once so many requests of p are answered.
// Whoever calls it sends them, or fails them.
func (r *retrier) takeAside(p *Pipe, answered uint64) []*heldRequest {
	all := p.order.takeNext(answered)
	for _, h := range all {
		r.senders.noteEnded(&h.call)
	}
	return all
}

// refuseOvertaken refuses what is aside and cannot be sent again any more, because c has run, or may have.
func (r *retrier) refuseOvertaken(p *Pipe, c call) {
	for _, h := range p.order.takeOvertaken(&c) {
		r.senders.noteEnded(&h.call)
		r.refuseHeld(h)
	}
}

// joinAside has the read c, which the node has answered, sent again behind what is aside. It reports false if
// that is not needed, or c does more than read.
func (r *retrier) joinAside(p *Pipe, c call, reply []byte) bool {
	joins := p.order.joins(&c)
	if joins {
		r.keepAside(p, &heldRequest{call: c, req: lasting(p.log.Oldest(c.size)), reply: bytes.Clone(reply),
			read: true})
	}
	return joins
}

// goOn sends again what has waited for its time. It is called behind each reply while anything is aside.
func (r *retrier) goOn(p *Pipe) {
	for all := r.takeAside(p, p.answered); all != nil; all = r.takeAside(p, p.answered) {
		for _, h := range all {
			r.sendAgain(p, h)
		}
	}
}

// sendAgain has h sent again at once, if possible.
func (r *retrier) sendAgain(p *Pipe, h *heldRequest) {
	switch {
	case p.Dead() != nil:
		r.sendLater(p, h)
	case h.read:
		h.again = true
		r.home.sendTo(p, &h.call, h.req)
	default:
		h.alone = true
		if !r.redirect(p, h.call, h.req, h.reply) {
			h.to.Receive(h.tag, retry.Plain(h.reply), true)
		}
	}
}

// sendLater has h sent again, perhaps elsewhere. It cannot ask the node any more what a script has said.
func (r *retrier) sendLater(p *Pipe, h *heldRequest) {
	switch {
	case h.byScript():
		r.refuseHeld(h)
		return
	case h.read: // what it has read is old when it is sent again
		h.reply, h.err = nil, errBehind
	}
	d := r.deferRequest(p.addr, p.mode, h.call, h.req, h.reply, h.err)
	if d != nil && h.fresh { // even late, the next connection can tell what became of it
		d.least = r.age() + r.o.ConnectTimeout
	}
}

// byScript says that a script may have made the error that h was refused with.
func (h *heldRequest) byScript() bool {
	if h.reply == nil || h.read || h.isOurScript(h.req) {
		return false
	}
	e, rest := retry.ErrorOf(h.reply)
	said, _ := script.From(int(h.slot), h.req, e, rest)
	return said && e.Verdict != retry.LoadScript
}

// refuseHeld ends h without sending it again. Its client gets the reply that put it aside, or why its
// connection ended.
func (r *retrier) refuseHeld(h *heldRequest) {
	switch {
	case h.err != nil:
		h.to.Fail(h.tag, fmt.Errorf("%w: %w", h.outcome(), h.err))
	case h.ran && !h.read:
		h.to.Fail(h.tag, fmt.Errorf("%w: %w", h.outcome(), complaint(h.reply)))
	case retry.IsRedirect(h.reply) && !h.read && !h.byScript():
		h.to.Fail(h.tag, cluster.NotTaken(h.outcome(), errOvertaken, true))
	default:
		h.to.Receive(h.tag, retry.Plain(h.reply), true)
	}
}

// letChoose lets the receiver of c, to which p has got the beginning of the reply, choose how to get it. The
// rest of the reply that comes is dropped: c has no receiver any more.
func (r *retrier) letChoose(p *Pipe, c *call, chunk []byte) {
	to, ok := c.to.(Chooser)
	if !ok || p.Conn != nil || p.mode.Replica || !c.resend || c.slot == thisNode {
		return
	}
	size := announced(chunk)
	if size <= cluster.MaxShared {
		return
	}
	m, again := to.Apart(c.tag, size)
	if !again {
		return
	}
	another, req := *c, bytes.Clone(p.log.Oldest(c.size))
	if c.again { // it is under way no more, and must not stand in its own way
		r.senders.noteEnded(c)
	}
	c.to, c.again = nil, false
	to.Detour(c.tag)
	r.home.sendToSlot(&another, m, req)
}
