package pipe

import (
	"bytes"
	"cmp"
	"errors"
	"time"

	"lockproxy/cluster"
	"lockproxy/cluster/pipe/owned"
	"lockproxy/cluster/pipe/script"
	"lockproxy/cluster/retry"
)

// waitingLimit bounds the bytes of the requests that wait for their nodes, in
// queues of Options.QueueLimit.
const waitingLimit = 16

// Why a request is not sent, or not now.
var (
	errRedirected = errors.New("it was redirected again and again")
	errOvertaken  = errors.New("what was sent behind it has run already")
	errBehind     = errors.New("what its client has sent before it is not answered")
	errShared     = errors.New("a request of more than 1 MiB is not sent over a connection " +
		"that clients share")
	errCutLarge = errors.New("the node closed the connection inside of it, " +
		"as it does above its client-query-buffer-limit")
)

// retrier decides what becomes of requests that their nodes have refused: they are sent again, at once or
// later, or asked about (redirect.go), or the client gets the refusal. What becomes of those whose connection
// has ended is in lost.go.
type retrier struct {
	*env
	*routing
	outages
	scripts script.Inventory
	senders senders      // whose requests are under way again
	waiting deferredList // what is tried again later
	armed   bool         // retryDeferred will run
	rests
}

// nextRound has the request sent again soon, and does not count that as a try.
func (r *retrier) nextRound(pipe *Pipe, c call, req, reply []byte, err error) {
	if d := r.deferRequest(pipe.addr, pipe.mode, c, req, reply, err); d != nil {
		d.try, d.next = c.try, r.loop.Now()
	}
}

// deferRequest has the request sent again after a pause that grows, until its budget is used up. addr is the
// node that had it, "" if none had. req is kept. It returns nil if there is no room for one more.
func (r *retrier) deferRequest(addr string, m Mode, c call, req, reply []byte, err error) *deferred {
	c.to.Detour(c.tag)
	c.healed, c.again = false, true
	if !c.try.Paused() {
		r.felt.Feel(addr, cluster.Felt{Delayed: 1})
	}
	next := r.loop.Now().Add(c.try.Pause())
	d := &deferred{call: c, mode: m.again(), addr: addr, next: next, reply: reply, err: err}
	if r.closed || r.waiting.bytes+len(req) > waitingLimit*r.o.QueueLimit {
		r.giveUp(d)
		return nil
	}
	d.req = lasting(req)
	r.waiting.addDeferred(d)
	r.armRetry()
	return d
}

// armRetry has the deferred requests tried soon. One timer is enough for all. To look at one takes a
// microsecond at most, and the loop has others to serve: of its time they get a fifth.
func (r *retrier) armRetry() {
	if n := len(r.waiting.all); !r.armed && n > 0 {
		r.armed = true
		r.loop.After(max(10*time.Millisecond, time.Duration(n)*4*time.Microsecond), func() {
			r.armed = false
			r.retryDeferred()
		})
	}
}

// retryDeferred sends the deferred requests whose time has come, in the order in which they came. Those that
// cannot go yet are put back; sendTo puts back others, because of their order.
func (r *retrier) retryDeferred() {
	waiting := r.waiting.takeAll()
	now := r.loop.Now()
	known := make(map[nodeSlot]shard)
	for _, d := range waiting {
		switch {
		case d.inDoubt:
			r.waiting.addDeferred(d)
		case now.Sub(r.born) >= d.least && r.expired(&d.call, d.addr, now.Sub(r.born), known):
			r.giveUp(d)
		case now.Before(d.next), r.waiting.delays(d.slot), r.holdsRequest(d.slot, d.addr, d.mode):
			r.waiting.addDeferred(d)
		case d.slot == thisNode && r.hasLeft(d.addr, d.mode):
			r.giveUp(d)
		case d.slot == thisNode:
			r.home.sendTo(r.home.pipe(d.addr, d.mode), &d.call, d.req)
		default:
			r.home.sendToSlot(&d.call, d.mode, d.req)
		}
	}
	r.armRetry()
}

// hasLeft says that a node has left the topology. Only a node that a request names can leave it without
// another to go to.
func (r *retrier) hasLeft(addr string, m Mode) bool {
	pipe := r.byNode[nodeKey{addr, m}]
	return pipe != nil && !pipe.retired.IsZero()
}

// giveUp answers a request whose budget is used up: with the node's own words, or with why no node could be
// reached.
func (r *retrier) giveUp(d *deferred) {
	r.stats.GivenUp.Add(1)
	r.felt.Feel(d.addr, cluster.Felt{Failed: 1})
	if d.reply != nil && !d.ran && !retry.IsRedirect(d.reply) {
		d.to.Receive(d.tag, d.reply, true)
		return
	}
	d.to.Fail(d.tag, notTaken(d.outcome(), d.reply, d.err))
}

// news has everything tried now that waits, because what it waits for may have come.
func (r *retrier) news() {
	r.waiting.tryNow(r.loop.Now())
	r.retryDeferred()
	r.wakeAll()
}

// newsSoon calls news in the next round.
func (r *retrier) newsSoon() {
	if !r.told {
		r.told = true
		r.loop.Post(func() {
			r.told = false
			r.news()
		})
	}
}

// putAside keeps c, which the node has refused, for later. It reports false if c may be sent again at once.
// req aliases the log.
func (r *retrier) putAside(p *Pipe, c *call, req, reply []byte) bool {
	client, _, latest := orderOf(c)
	if client == 0 || latest && !p.order.hasAside(client) {
		return false
	}
	c.to.Detour(c.tag)
	r.keepAside(p, &heldRequest{call: *c, req: lasting(req), reply: bytes.Clone(reply)})
	return true
}

// keepAside puts h aside until all is answered that p owes now. Meanwhile nothing else is sent again for its
// client and slot.
func (r *retrier) keepAside(p *Pipe, h *heldRequest) {
	p.order.keepHeld(h, p.answered+uint64(p.calls.Len()))
	r.senders.noteSent(nil, &h.call)
}

// complaint turns an error reply into an error.
func complaint(reply []byte) error {
	if retry.IsRedirect(reply) {
		return errRedirected
	}
	return errors.New(string(bytes.TrimSpace(reply)))
}

// notTaken is the error of a request whose budget is used up: err, or what reply complains of, is why. reply
// counts only without err.
func notTaken(outcome error, reply []byte, err error) error {
	err = cmp.Or(err, complaint(reply))
	return cluster.NotTaken(outcome, err, err == errRedirected || errors.Is(err, owned.ErrNoPlace))
}
