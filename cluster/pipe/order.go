package pipe

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"lockproxy/cluster"
	"lockproxy/cluster/retry"
)

// This file keeps the requests of one client to one slot in order when some of them are sent again. A node
// that has refused one may run the next, which was on its way already:
//
//	EVALSHA, SET --> node --> -NOSCRIPT, +OK
//
// So a request that was refused is put aside until its node has answered all that it had when it refused the
// last one:
//
//	the node has refused all that the client sent behind it   all of it is sent again, in order
//	it has run reads only                                     they are sent again, too
//	it has run something else                                 the client gets the refusal, as at Redis
//
// When a connection ends, what the node may have run counts as run. Nothing waits if the client has sent
// nothing behind the request.

// Ordered is a Receiver for a client whose requests take effect in order.
type Ordered interface {
	Receiver
	// Order says for whom request tag is (not 0), of which command in the client's order, and whether that is
	// the latest one.
	Order(tag uint32) (client int64, n uint32, latest bool)
}

// order is a Pipe as it puts requests aside.
type order Pipe

// aside is what may be sent again for one client, in order.
type aside struct {
	client int64
	until  uint64 // it waits until so many requests of the pipe are answered
	all    []*held
}

// held is a request that is sent again, unless something that its client sent behind it has run.
type held struct {
	call
	req   []byte
	reply []byte // of the node; or nil
	read  bool   // it only reads, and reply is its answer
	err   error  // of the connection, which has ended
	fresh bool   // the first try has ended so
}

var errOvertaken = errors.New("what was sent behind it has run already")

// orderOf is Ordered.Order for the request of c. Where nobody minds the order, client is 0.
func orderOf(c *call) (client int64, n uint32, latest bool) {
	if o, ok := c.to.(Ordered); ok {
		return o.Order(c.tag)
	}
	return 0, 0, true
}

// harmless says that a second run of c, a request about a lock, changes nothing.
func harmless(c *call) bool {
	_, ok := c.to.(Repeater)
	return ok
}

// putAside keeps c, which the node has refused, for later. It reports false if c may be sent again at once.
// req aliases the log.
func (o *order) putAside(c *call, req, reply []byte) bool {
	client, _, latest := orderOf(c)
	if client == 0 || latest && o.aside[client] == nil {
		return false
	}
	c.to.Detour(c.tag)
	o.keep(&held{call: *c, req: lasting(req), reply: bytes.Clone(reply)})
	return true
}

// lost keeps h, whose connection has ended, until it is known what is behind it.
func (o *order) lost(h *held) {
	if client, _, _ := orderOf(&h.call); client == 0 {
		o.sendLater(h)
		return
	}
	o.keep(h)
}

// keep puts h behind what is aside for its client.
func (o *order) keep(h *held) {
	client, _, _ := orderOf(&h.call)
	g, until := o.aside[client], o.answered+uint64(o.calls.len())
	if g == nil {
		if o.aside == nil {
			o.aside = make(map[int64]*aside)
		}
		g = &aside{client: client}
		o.aside[client] = g
		o.asides = append(o.asides, g)
	} else if g.until != until { // more is behind h than was behind what is aside already
		i := slices.Index(o.asides, g)
		o.asides = append(slices.Delete(o.asides, i, i+1), g)
	}
	g.until, g.all = until, append(g.all, h)
	o.pool.senders.sends(nil, &h.call)
}

// overtaken ends what is aside and cannot be sent again any more, because c has run, or may have.
func (o *order) overtaken(c *call) {
	if len(o.asides) == 0 {
		return
	}
	client, _, _ := orderOf(c)
	g := o.aside[client]
	if g == nil {
		return
	}
	var over []*held
	g.all = slices.DeleteFunc(g.all, func(h *held) bool {
		conflicts := h.conflicts(c)
		if conflicts {
			over = append(over, h)
		}
		return conflicts
	})
	if len(g.all) == 0 { // more may be sent now
		delete(o.aside, client)
		o.asides = slices.DeleteFunc(o.asides, func(a *aside) bool { return a == g })
	}
	for _, h := range over {
		o.pool.senders.ends(&h.call)
		o.refuse(h)
	}
}

// conflicts says that h must not run after c. What a node sends on with ASK is about keys that it does not
// have, so nothing that it runs is about them. A request about a lock that may have run has taken effect in
// its place if it has.
func (h *held) conflicts(c *call) bool {
	_, n, _ := orderOf(&h.call)
	_, m, _ := orderOf(c)
	switch {
	case int32(m-n) <= 0, bytes.HasPrefix(h.reply, ask), h.ran && harmless(&h.call):
		return false
	case isRedirect(h.reply) && !h.read: // the node has no key of that slot
		return h.slot == c.slot
	}
	return h.slot == c.slot || h.wide || c.wide
}

var ask = []byte("-ASK ")

// joins has the read c, which the node has answered, sent again behind what is aside. It reports false if
// that is not needed, or c does more than read.
func (o *order) joins(c *call, reply []byte) bool {
	if _, reads := c.to.(Chooser); !reads || !c.resend {
		return false
	}
	client, _, _ := orderOf(c)
	g := o.aside[client]
	joins := g != nil && slices.ContainsFunc(g.all, func(h *held) bool { return !h.read && h.conflicts(c) })
	if joins {
		req := lasting((*Pipe)(o).log.oldest(c.size))
		o.keep(&held{call: *c, req: req, reply: bytes.Clone(reply), read: true})
	}
	return joins
}

// popUnanswered removes the oldest request of the pipe, whose reply does not concern its client.
func (o *order) popUnanswered() {
	p := (*Pipe)(o)
	p.pop()
	o.goOn()
	if p.private != nil {
		p.private.answered(call{})
	}
}

// goOn sends again what has waited for its time. It is called behind each reply while anything is aside.
func (o *order) goOn() {
	p := (*Pipe)(o)
	for len(o.asides) > 0 && o.asides[0].until <= o.answered {
		for _, h := range o.next() {
			switch {
			case p.dead != nil:
				o.sendLater(h)
			case h.read:
				h.again = true
				p.pool.sendTo(p, &h.call, h.req)
			default:
				h.alone = true
				if !p.pool.redirect(p, h.call, h.req, h.reply) {
					h.to.Receive(h.tag, plainError(h.reply), true)
				}
			}
		}
	}
}

// next takes what is aside for the client whose turn it is.
func (o *order) next() []*held {
	g := o.asides[0]
	o.asides = o.asides[1:]
	delete(o.aside, g.client)
	for _, h := range g.all {
		o.pool.senders.ends(&h.call)
	}
	return g.all
}

// abandon is goOn for a connection that has ended.
func (o *order) abandon() {
	for len(o.asides) > 0 {
		for _, h := range o.next() {
			o.sendLater(h)
		}
	}
}

// sendLater has h sent again, perhaps elsewhere. It cannot ask the node any more what a script has said.
func (o *order) sendLater(h *held) {
	switch {
	case h.byScript():
		o.refuse(h)
		return
	case h.read: // what it has read is old when it is sent again
		h.reply, h.err = nil, errBehind
	}
	d := o.pool.later(o.addr, o.mode, h.call, h.req, h.reply, h.err)
	if d != nil && h.fresh { // even late, the next connection can tell what became of it
		d.least = o.pool.since() + o.pool.o.ConnectTimeout
	}
}

// byScript says that a script may have made the error that h was refused with.
func (h *held) byScript() bool {
	if h.reply == nil || h.read || h.resend && mayRepeat(h.req) {
		return false
	}
	r, rest := retry.ErrorOf(h.reply)
	script, _ := fromScript(&h.call, h.req, r, rest)
	return script && r.Verdict != retry.LoadScript
}

// refuse ends h without sending it again.
func (o *order) refuse(h *held) {
	switch {
	case h.err != nil:
		h.to.Fail(h.tag, fmt.Errorf("%w: %w", h.outcome(), h.err))
	case h.ran && !h.read:
		h.to.Fail(h.tag, fmt.Errorf("%w: %w", h.outcome(), complaint(h.reply)))
	case isRedirect(h.reply) && !h.read && !h.byScript():
		h.to.Fail(h.tag, cluster.NotTaken(h.outcome(), errOvertaken, true))
	default:
		h.to.Receive(h.tag, plainError(h.reply), true)
	}
}

// plainError is a reply of which clients do not follow the redirect.
func plainError(reply []byte) []byte {
	if isRedirect(reply) {
		return append([]byte("-ERR "), reply[1:]...)
	}
	return reply
}
