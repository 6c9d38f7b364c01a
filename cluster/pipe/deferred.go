package pipe

import (
	"bytes"
	"cmp"
	"slices"
	"time"
)

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
	inDoubt bool          // its node is asked what the reply means: see doubt.go
}

// delays says that later requests of the slot wait as well, whoever sends them. TRYAGAIN delays those of its
// client only: it is about requests with several keys, and those with one are served meanwhile.
func (d *deferred) delays() bool {
	return d.slot >= 0 && !isTryAgain(d.reply) && d.err != errBehind
}

func isTryAgain(reply []byte) bool { return bytes.HasPrefix(reply, tryAgain) }

var tryAgain = []byte("-TRYAGAIN ")

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
