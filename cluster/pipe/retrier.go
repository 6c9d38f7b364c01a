package pipe

import (
	"bytes"
	"cmp"
	"maps"
	"slices"
	"time"

	"lockproxy/cluster"
	"lockproxy/internal/loop"
)

// waitingLimit bounds the bytes of the requests that wait for their nodes, in
// queues of Options.QueueLimit.
const waitingLimit = 16

// retrier decides what becomes of requests that their nodes have refused: they are sent again, at once or
// later, or asked about (redirect.go), or the client gets the refusal. What becomes of those whose connection
// has ended is in lost.go.
type retrier struct {
	*env
	*routing
	nodes  nodes
	shared map[nodeKey]*Pipe
	outages
	scripts scriptLoads
	senders senders
	waiting deferredList
	armed   bool
	rests
}

// nodes are how requests are sent again.
type nodes interface {
	// send sends a request to the node of its slot, sendTo over a pipe.
	send(c *call, m Mode, req []byte) *Pipe
	sendTo(pipe *Pipe, c *call, req []byte) *Pipe
	// pipe finds or makes the pipe to addr.
	pipe(addr string, m Mode) *Pipe
	// redial makes later requests to the pipe's node use a new connection, if reply says that it may help.
	redial(pipe *Pipe, reply []byte)
}

// nextRound has the request sent again soon, and does not count that as a try.
func (r *retrier) nextRound(pipe *Pipe, c call, req, reply []byte, err error) {
	c.to.Detour(c.tag)
	if d := r.later(pipe.addr, pipe.mode, c, req, reply, err); d != nil {
		d.try, d.next = c.try, r.loop.Now()
	}
}

// later has the request sent again after a pause that grows, until its budget is used up. addr is the node
// that had it, "" if none had. req is kept. It returns nil if there is no room for one more.
func (r *retrier) later(addr string, m Mode, c call, req, reply []byte, err error) *deferred {
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
	r.waiting.add(d)
	r.arm()
	return d
}

// arm has the deferred requests tried soon.
func (r *retrier) arm() {
	if !r.armed && len(r.waiting.all) > 0 {
		r.armed = true
		r.loop.After(10*time.Millisecond, func() {
			r.armed = false
			r.retry()
		})
	}
}

// retry sends the deferred requests whose time has come, in the order in which they came.
func (r *retrier) retry() {
	waiting := r.waiting.takeAll()
	now := r.loop.Now()
	known := make(map[nodeSlot]shard)
	for _, d := range waiting {
		switch {
		case d.inDoubt:
			r.waiting.add(d)
		case now.Sub(r.born) >= d.least && r.expired(&d.call, d.addr, now.Sub(r.born), known):
			r.giveUp(d)
		case now.Before(d.next), r.waiting.delays(d.slot), r.holds(d.slot, d.addr, d.mode, r.shared):
			r.waiting.add(d)
		case d.slot == thisNode && r.left(d.addr, d.mode):
			r.giveUp(d)
		case d.slot == thisNode:
			r.nodes.sendTo(r.nodes.pipe(d.addr, d.mode), &d.call, d.req)
		default:
			r.nodes.send(&d.call, d.mode, d.req)
		}
	}
	r.arm()
}

// left says that a node has left the topology.
func (r *retrier) left(addr string, m Mode) bool {
	pipe := r.shared[nodeKey{addr, m}]
	return pipe != nil && !pipe.retired.IsZero()
}

// giveUp answers a request whose budget is used up: with the node's own words, or with why no node could be
// reached.
func (r *retrier) giveUp(d *deferred) {
	r.stats.GivenUp.Add(1)
	r.felt.Feel(d.addr, cluster.Felt{Failed: 1})
	if d.reply != nil && !d.ran && !isRedirect(d.reply) {
		d.to.Receive(d.tag, d.reply, true)
		return
	}
	d.to.Fail(d.tag, notTaken(d.outcome(), d.reply, d.err))
}

// news has everything tried now that waits, because what it waits for may have come.
func (r *retrier) news() {
	r.waiting.now(r.loop.Now())
	r.retry()
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
	if client == 0 || latest && !p.order.has(client) {
		return false
	}
	c.to.Detour(c.tag)
	r.keep(p, &heldRequest{call: *c, req: lasting(req), reply: bytes.Clone(reply)})
	return true
}

// keep puts h aside.
func (r *retrier) keep(p *Pipe, h *heldRequest) {
	p.order.keep(h, p.answered+uint64(p.calls.len()))
	r.senders.sends(nil, &h.call)
}

// This file is about requests that wait to be sent again, and about what they must not overtake.

// deferred is a request that waits for a node to become able to take it. A later request of its slot that is
// redirected too does not overtake it.
type deferred struct {
	call
	mode    Mode
	addr    string // of thisNode
	req     []byte
	next    time.Time
	least   time.Duration // it is not given up before, counted as came
	reply   []byte        // the error reply that made it wait, or nil
	err     error         // the error of the connection that did
	inDoubt bool          // its node is asked what the reply means: see redirect.go
}

// delays says that later requests of the slot wait as well, whoever sends them. TRYAGAIN delays those of its
// client only: it is about requests with several keys, and those with one are served meanwhile.
func (d *deferred) delays() bool {
	return d.slot >= 0 && !isTryAgain(d.reply) && d.err != errBehind
}

// deferredList is the requests that wait, in the order in which they came. Those that come together were
// deferred in their order.
type deferredList struct {
	all     []*deferred
	mixed   bool                     // an earlier one is behind a later one
	bytes   int                      // of their requests
	delayed map[int16]int            // how many of them delay later requests, by slot
	firsts  map[sender]time.Duration // when the first one of a sender came
}

// delays says that a request of the slot has to wait behind others.
func (l *deferredList) delays(slot int16) bool { return l.delayed[slot] > 0 }

// behind says that an earlier request of the sender of c waits.
func (l *deferredList) behind(c *call) bool {
	first, waits := l.firsts[senderOf(c)]
	return waits && first < c.came
}

// count notes d in firsts.
func (l *deferredList) count(d *deferred) {
	if of := senderOf(&d.call); of != (sender{}) && (l.firsts[of] == 0 || d.came < l.firsts[of]) {
		l.firsts[of] = d.came
	}
}

// add puts d behind those that came before it.
func (l *deferredList) add(d *deferred) {
	l.bytes += len(d.req)
	l.mixed = l.mixed || len(l.all) > 0 && d.came < l.all[len(l.all)-1].came
	l.all = append(l.all, d)
	l.count(d)
	if d.delays() {
		if l.delayed == nil {
			l.delayed = make(map[int16]int)
		}
		l.delayed[d.slot]++
	}
}

// remove takes d out.
func (l *deferredList) remove(d *deferred) {
	i := slices.Index(l.all, d)
	if i < 0 {
		return
	}
	l.all = slices.Delete(l.all, i, i+1)
	l.bytes -= len(d.req)
	delete(l.firsts, senderOf(&d.call))
	for _, e := range l.all {
		if senderOf(&e.call) == senderOf(&d.call) {
			l.count(e)
		}
	}
	if d.delays() {
		l.delayed[d.slot]--
	}
}

// first says that no other request delays d.
func (l *deferredList) first(d *deferred) bool {
	l.sort()
	of := senderOf(&d.call)
	i := slices.IndexFunc(l.all, func(e *deferred) bool {
		return e == d || e.slot == d.slot && (e.delays() || of != sender{} && senderOf(&e.call) == of)
	})
	return i >= 0 && l.all[i] == d
}

// now has all of them tried at once, because what they wait for may have come.
func (l *deferredList) now(now time.Time) {
	for _, d := range l.all {
		d.next = now
		d.try.News()
	}
}

// sort restores the order after add.
func (l *deferredList) sort() {
	if l.mixed {
		slices.SortStableFunc(l.all, func(d, e *deferred) int { return cmp.Compare(d.came, e.came) })
		l.mixed = false
	}
}

// takeAll empties the list.
func (l *deferredList) takeAll() []*deferred {
	l.sort()
	all := l.all
	l.all, l.bytes = nil, 0
	clear(l.firsts)
	clear(l.delayed)
	return all
}

// senders hold back what is sent again, as long as it could overtake what its client has sent before it:
// that waits, is aside (order.go), or is under way over another connection.

// senders tell of each client, by slot, what is under way again.
type senders map[sender]*resends

// sender is a client that sends to a slot. The zero value is nobody whose requests have an order.
type sender struct {
	client int64
	slot   int16
}

// resends are the requests of one sender that are under way again, or aside.
type resends struct {
	pipe *Pipe // carries them, and may carry more; nil: one is aside, or was
	n    int
}

func senderOf(c *call) sender {
	if client, _, _ := orderOf(c); client != 0 && c.slot >= 0 {
		return sender{client, c.slot}
	}
	return sender{}
}

// blocks says that c, which is sent again, must not go over pipe yet.
func (s senders) blocks(pipe *Pipe, c *call) bool {
	r := s[senderOf(c)]
	return r != nil && r.pipe != pipe
}

// sends notes that pipe carries c; nil: that c is aside.
func (s senders) sends(pipe *Pipe, c *call) {
	of := senderOf(c)
	if of == (sender{}) {
		return
	}
	r := s[of]
	if r == nil {
		r = new(resends)
		s[of] = r
	}
	r.pipe, r.n = pipe, r.n+1
}

// ends notes that c is neither under way nor aside any more.
func (s senders) ends(c *call) {
	of := senderOf(c)
	if r := s[of]; r != nil {
		if r.n--; r.n == 0 {
			delete(s, of)
		}
	}
}

// rests is what waits on a loop until it is tried again.
type rests struct {
	timers *loop.Loop
	all    map[*rest]struct{}
	told   bool // news will come in the next round
}

// rest is one of them.
type rest struct {
	again func()
	timer *time.Timer
}

// Rest calls again, on the loop, after a pause, or earlier if there is news: another topology, or a master
// that answers again. Nothing calls it off.
func (r *rests) Rest(pause time.Duration, again func()) {
	one := &rest{again: again}
	r.all[one] = struct{}{}
	one.timer = r.timers.After(pause, func() { r.wake(one) })
}

func (r *rests) wake(one *rest) {
	if _, rests := r.all[one]; rests {
		delete(r.all, one)
		one.timer.Stop()
		one.again()
	}
}

func (r *rests) wakeAll() {
	for _, one := range slices.Collect(maps.Keys(r.all)) {
		r.wake(one)
	}
}
