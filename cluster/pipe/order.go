package pipe

import (
	"bytes"
	"slices"

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
// nothing behind the request. What becomes of the requests is decided in redirect.go.

// Ordered is a Receiver for a client whose requests take effect in order.
type Ordered interface {
	Receiver
	// Order says for whom request tag is (not 0), of which command in the client's order, and whether that is
	// the latest one.
	Order(tag uint32) (client int64, n uint32, latest bool)
}

// order is what a pipe has put aside, in the order in which it may be sent again.
type order struct {
	all      []*aside
	byClient map[int64]*aside // those of all, by client
}

// aside is what may be sent again for one client, in order.
type aside struct {
	client int64
	until  uint64 // it waits until so many requests of the pipe are answered
	all    []*heldRequest
}

// heldRequest is a request that is sent again, unless something that its client sent behind it has run.
type heldRequest struct {
	call
	req   []byte
	reply []byte // of the node; or nil
	read  bool   // it only reads, and reply is its answer
	err   error  // of the connection, which has ended
	fresh bool   // the first try has ended so
}

// orderOf is Ordered.Order for the request of c. Where nobody minds the order, client is 0.
func orderOf(c *call) (client int64, n uint32, latest bool) {
	if o, ok := c.to.(Ordered); ok {
		return o.Order(c.tag)
	}
	return 0, 0, true
}

// harmless says that c is a request about a lock. It may run twice if c.resend is set.
func harmless(c *call) bool {
	_, ok := c.to.(Repeater)
	return ok
}

// hasAside says that something is aside for the client.
func (o *order) hasAside(client int64) bool { return o.byClient[client] != nil }

// keepHeld puts h behind what is aside for its client, until so many requests of the pipe are answered.
func (o *order) keepHeld(h *heldRequest, until uint64) {
	client, _, _ := orderOf(&h.call)
	g := o.byClient[client]
	if g == nil {
		if o.byClient == nil {
			o.byClient = make(map[int64]*aside)
		}
		g = &aside{client: client}
		o.byClient[client] = g
		o.all = append(o.all, g)
	} else if g.until != until { // more is behind h than was behind what is aside already
		i := slices.Index(o.all, g)
		o.all = append(slices.Delete(o.all, i, i+1), g)
	}
	g.until, g.all = until, append(g.all, h)
}

// takeOvertaken takes out what cannot be sent again any more, because c has run, or may have. The rest of
// that client stays aside.
func (o *order) takeOvertaken(c *call) (over []*heldRequest) {
	if len(o.all) == 0 {
		return nil
	}
	client, _, _ := orderOf(c)
	g := o.byClient[client]
	if g == nil {
		return nil
	}
	g.all = slices.DeleteFunc(g.all, func(h *heldRequest) bool {
		conflicts := h.conflicts(c)
		if conflicts {
			over = append(over, h)
		}
		return conflicts
	})
	if len(g.all) == 0 { // more may be sent now
		delete(o.byClient, client)
		o.all = slices.DeleteFunc(o.all, func(a *aside) bool { return a == g })
	}
	return over
}

// conflicts says that h must not run after c. What a node sends on with ASK is about keys that it does not
// have, so nothing that it runs is about them. A request about a lock that may have run has taken effect in
// its place if it has.
func (h *heldRequest) conflicts(c *call) bool {
	_, n, _ := orderOf(&h.call)
	_, m, _ := orderOf(c)
	switch {
	case int32(m-n) <= 0, bytes.HasPrefix(h.reply, []byte("-ASK ")), h.ran && harmless(&h.call):
		return false
	case retry.IsRedirect(h.reply) && !h.read: // the node has no key of that slot
		return h.slot == c.slot
	}
	return h.slot == c.slot || h.wide || c.wide
}

// joins says that the read c, which the node has answered, is to be sent again behind what is aside.
func (o *order) joins(c *call) bool {
	if _, reads := c.to.(Chooser); !reads || !c.resend {
		return false
	}
	client, _, _ := orderOf(c)
	g := o.byClient[client]
	return g != nil && slices.ContainsFunc(g.all,
		func(h *heldRequest) bool { return !h.read && h.conflicts(c) })
}

// takeNext takes what is aside for the client whose turn it is, once so many requests are answered. nil:
// nobody's turn has come.
func (o *order) takeNext(answered uint64) []*heldRequest {
	if len(o.all) == 0 || o.all[0].until > answered {
		return nil
	}
	g := o.all[0]
	o.all = o.all[1:]
	delete(o.byClient, g.client)
	return g.all
}
