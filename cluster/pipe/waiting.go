package pipe

import (
	"bytes"
	"cmp"
	"maps"
	"slices"
	"time"

	"lockproxy/internal/loop"
)

// This file is about requests that wait to be sent again, and about what they must not overtake.

// deferred is a request that waits for a node to become able to take it. A later request of its slot that is
// redirected too does not overtake it.
type deferred struct {
	call
	mode    Mode
	addr    string        // of thisNode
	req     []byte        // nobody writes to it
	next    time.Time     // it is not tried before
	least   time.Duration // it is not given up before, counted as came
	reply   []byte        // the error reply that made it wait, or nil
	err     error         // the error of the connection that did
	inDoubt bool          // its node is asked what the reply means: see redirect.go
}

// delays says that later requests of the slot wait as well, whoever sends them. TRYAGAIN delays those of its
// client only: it is about requests with several keys, and those with one are served meanwhile.
func (d *deferred) delays() bool {
	return d.slot >= 0 && !bytes.HasPrefix(d.reply, []byte("-TRYAGAIN ")) && d.err != errBehind
}

// deferredList is the requests that wait, in the order in which they came. Those that come together were
// deferred in their order.
type deferredList struct {
	all     []*deferred
	mixed   bool                     // an earlier one is behind a later one
	bytes   int                      // of their requests
	delayed map[int16]int            // how many of them delay later requests, by slot; 0 may stay
	firsts  map[sender]time.Duration // when the first one of a sender came
}

// delays says that a request of the slot has to wait behind others.
func (l *deferredList) delays(slot int16) bool { return l.delayed[slot] > 0 }

// behind says that an earlier request of the sender of c waits.
func (l *deferredList) behind(c *call) bool {
	first, waits := l.firsts[senderOf(c)]
	return waits && first < c.came
}

// countFirst notes d in firsts. Requests without an order are not noted.
func (l *deferredList) countFirst(d *deferred) {
	if of := senderOf(&d.call); of != (sender{}) && (l.firsts[of] == 0 || d.came < l.firsts[of]) {
		l.firsts[of] = d.came
	}
}

// addDeferred puts d behind those that came before it. It may be out of order until sortByCame.
func (l *deferredList) addDeferred(d *deferred) {
	l.bytes += len(d.req)
	l.mixed = l.mixed || len(l.all) > 0 && d.came < l.all[len(l.all)-1].came
	l.all = append(l.all, d)
	l.countFirst(d)
	if d.delays() {
		if l.delayed == nil {
			l.delayed = make(map[int16]int)
		}
		l.delayed[d.slot]++
	}
}

// removeDeferred takes d out. It does nothing if d is not in the list, as after takeAll.
func (l *deferredList) removeDeferred(d *deferred) {
	i := slices.Index(l.all, d)
	if i < 0 {
		return
	}
	l.all = slices.Delete(l.all, i, i+1)
	l.bytes -= len(d.req)
	delete(l.firsts, senderOf(&d.call))
	for _, e := range l.all {
		if senderOf(&e.call) == senderOf(&d.call) {
			l.countFirst(e)
		}
	}
	if d.delays() {
		l.delayed[d.slot]--
	}
}

// isFirst says that no other request delays d.
func (l *deferredList) isFirst(d *deferred) bool {
	l.sortByCame()
	of := senderOf(&d.call)
	i := slices.IndexFunc(l.all, func(e *deferred) bool {
		return e == d || e.slot == d.slot && (e.delays() || of != sender{} && senderOf(&e.call) == of)
	})
	return i >= 0 && l.all[i] == d
}

// tryNow has all of them tried at once, because what they wait for may have come.
func (l *deferredList) tryNow(now time.Time) {
	for _, d := range l.all {
		d.next = now
		d.try.News()
	}
}

// sortByCame restores the order after addDeferred.
func (l *deferredList) sortByCame() {
	if l.mixed {
		slices.SortStableFunc(l.all, func(d, e *deferred) int { return cmp.Compare(d.came, e.came) })
		l.mixed = false
	}
}

// takeAll empties the list. They are in the order in which they came; retryDeferred adds again what still
// waits.
func (l *deferredList) takeAll() []*deferred {
	l.sortByCame()
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

// senderOf is the client and the slot of c; the zero value if its order does not matter, or it is not for one
// slot.
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

// noteSent notes that pipe carries c; nil: that c is aside. noteEnded has to follow for each.
func (s senders) noteSent(pipe *Pipe, c *call) {
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

// noteEnded notes that c is neither under way nor aside any more.
func (s senders) noteEnded(c *call) {
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
	all    map[*time.Timer]func() // what is called, by what calls it
	told   bool                   // news will come in the next round
}

// Rest calls again, on the loop, after a pause, or earlier if there is news: another topology, or a master
// that answers again. Nothing calls it off.
func (r *rests) Rest(pause time.Duration, again func()) {
	var timer *time.Timer
	timer = r.timers.After(pause, func() { r.wakeRest(timer) })
	r.all[timer] = again
}

// wakeRest calls one of them, unless it was called already: its timer may have been posted when news came.
func (r *rests) wakeRest(timer *time.Timer) {
	if again, rests := r.all[timer]; rests {
		delete(r.all, timer)
		timer.Stop()
		again()
	}
}

// wakeAll calls those that rest now; what they add waits.
func (r *rests) wakeAll() {
	for _, timer := range slices.Collect(maps.Keys(r.all)) {
		r.wakeRest(timer)
	}
}
