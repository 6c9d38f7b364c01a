package line

import (
	"math"
	"slices"
	"time"
)

const (
	// Offer is how long the free lock is kept for the proxy that was told to ask for it.
	Offer = 500 * time.Millisecond
	// Alive is how long a proxy stands in the line after it has spoken last.
	Alive = 15 * time.Second
	// Pulse is how often a proxy with waiters asks at least, so that it stays alive, and a lost message costs
	// no more.
	Pulse = 5 * time.Second
	// MostWants is how many waiters one Move asks for at most.
	MostWants = 100

	// late is how long after an event a proxy asks that waits for that event.
	late = time.Millisecond
)

// Mode says with whom a waiter is going to share the lock.
type Mode byte

// The modes.
const (
	Write  Mode = 'w'
	Read   Mode = 'r'
	Permit Mode = 'p' // of a semaphore
	Up     Mode = 'u' // a reader that is to become the writer; its ticket is 0
)

// None is the ticket of nobody. It is higher than all others.
const None = math.MaxInt64

// Waiter is a LOCK that waits.
type Waiter struct {
	Ticket int64
	Mode   Mode
	Token  string
	// Unsure says that a Move for it has failed that may have run: if the waiter leaves, what it may hold is
	// to be given back.
	Unsure bool

	drawn int64 // Reply.Last when it joined
}

// writes says that nobody whose ticket is higher may go in with the waiter.
func (w *Waiter) writes() bool { return w.Mode == Write || w.Mode == Up }

// Place is where a proxy stands: its lowest ticket, and the lowest of one that wants to write.
type Place struct{ Head, Writer int64 }

// Nowhere is the Place of a proxy without waiters.
var Nowhere = Place{None, None}

// With is the place once w has joined.
func (p Place) With(w *Waiter) Place {
	p.Head = min(p.Head, w.Ticket)
	if w.writes() {
		p.Writer = min(p.Writer, w.Ticket)
	}
	return p
}

// Move is what a script says of the line of its proxy, beside what else it does (UNLOCK), and whom it asks
// for. Of one proxy and lock one is under way at a time.
type Move struct {
	Number int64 // a later one of the same proxy has a higher one
	Known  int64 // the highest ticket that the proxy knows of
	// Seen: LOCKs are under way, and this is the highest ticket that any before them has drawn. Others that
	// this proxy does not know of yet have higher ones. None: no LOCK is under way.
	Seen int64
	// Wants are waiters that may go in together: one writer, the readers before the first writer, or permits.
	// They are in the order of their tickets, the lowest of the proxy first.
	Wants []*Waiter
	Next  Place     // where the proxy stands once they are in
	Sent  time.Time // for Moved alone
}

// Reply is what a script tells the line of its proxy.
type Reply struct {
	Granted  int           // so many of those it asked for have the lock, the first ones
	Ticket   int64         // of a LOCK that waits from now on; or of the next of those asked for, if Anew
	Anew     bool          // that one has another ticket: 0, it is a reader already; else it is none any more
	Deadlock bool          // that one is refused: another reader waits to become the writer
	Stale    bool          // a later Move has been there before
	Place    Place         // where the proxy stands now
	Last     int64         // the highest ticket so far, of all proxies
	After    time.Duration // until something happens by itself; 0: the lock is free for this proxy
}

// Line is what one proxy knows of its waiters for one lock, in the order of their tickets, and of its place
// in the line that Redis has. It has no clock and sends nothing: after each call, send what Move returns, and
// call Move again when Due has come. It is not safe for concurrent use.
type Line struct {
	waiters []*Waiter
	joins   int       // LOCKs under way
	seen    int64     // the highest ticket that one of them has drawn
	known   int64     // the highest ticket that a reply told
	told    Place     // where Redis has this proxy stand
	moving  bool      // a Move is under way
	joined  []*Waiter // since that was sent, also those that have left already
	number  int64     // of the last one
	said    said      // with the last one
	moved   int64     // the highest ticket when the last one ran that was answered
	again   bool      // the lock was offered to this proxy, and it has not asked since
	due     time.Time // when it asks if nothing happens before
}

// said is what a Move says of the waiters. As long as it is true, nothing is won by saying it again: where
// Redis has the proxy stand may be because of a LOCK whose reply is still under way.
type said struct {
	place Place
	seen  int64
	joins bool
}

func (l *Line) now() said { return said{placeOf(l.waiters), l.seen, l.joins > 0} }

// New returns the line of a proxy without waiters. No Move that the proxy has made before, with an earlier
// Line of this lock, may have a number above this one: count all of its requests.
func New(number int64) *Line { return &Line{told: Nowhere, number: number} }

// Idle says that there is nothing to be known of the line: it can be forgotten.
func (l *Line) Idle() bool {
	return len(l.waiters) == 0 && l.joins == 0 && !l.moving && l.told == Nowhere
}

// Len is how many wait, or may have to because their LOCK is under way.
func (l *Line) Len() int { return len(l.waiters) + l.joins }

// Waiters are those who wait, the lowest ticket first. They are to be read only.
func (l *Line) Waiters() []*Waiter { return l.waiters }

// Says is what a LOCK says of its proxy: the highest ticket that it knows of, so that none is drawn twice
// after a fail-over; and the number of its last Move, so that copies of earlier ones do nothing.
func (l *Line) Says() (known, number int64) { return l.known, l.number }

// Join notes that a LOCK is sent, which draws a ticket if it is not granted. Any number of them may be under
// way, over any connections. Joined must follow.
func (l *Line) Join(now time.Time) {
	if l.Len() == 0 {
		l.due = now.Add(Pulse)
	}
	l.joins++
}

// Joined notes the reply to a LOCK. w waits from now on, with the ticket of the reply; nil: it does not. ok
// is false if w is refused, because another reader waits already to become the writer. sent is when the LOCK
// was: a proxy that stood still reads replies late.
func (l *Line) Joined(w *Waiter, r Reply, sent time.Time) (ok bool) {
	l.joins--
	l.known = max(l.known, r.Last)
	if w == nil {
		l.again = l.again || r.After <= 0 && len(l.waiters) == 0
		return true
	}
	w.Ticket, w.drawn, l.seen = r.Ticket, r.Last, max(l.seen, r.Last)
	if w.Mode == Up && len(l.waiters) > 0 && l.waiters[0].Mode == Up {
		l.told = Nowhere // Redis may have noted w: say who it is
		return false
	}
	l.stand(w)
	if l.moving {
		l.joined = append(l.joined, w)
	}
	if r.Last > l.moved {
		l.told = l.told.With(w)
	} // otherwise a Move that did not know of w has run behind this LOCK
	if r.After > 0 || len(l.waiters) == 1 { // with others the proxy has heard of the offer
		l.wait(r.After, sent)
	}
	return true
}

// Leave takes out w, whose client has gone or has waited for long enough. held says that it may hold the lock
// all the same, which is to be given back. If it is asked for right now, Moved tells.
func (l *Line) Leave(w *Waiter) (held bool) {
	l.remove(w)
	return w.Unsure
}

// Hear takes the message that the lock is offered: to this proxy, or to others, which have so long to ask; or
// that it is going to be free after so long.
func (l *Line) Hear(mine bool, after time.Duration, now time.Time) {
	if mine {
		l.again = true // also if the reply to the LOCK that waits has not come yet
	} else {
		l.wait(after, now)
	}
}

// Deaf notes that messages may have been lost, or Redis may have lost the line: ask.
func (l *Line) Deaf() { l.again = true }

// Due is when Move is to be called if nothing happens before; the zero time if nobody waits.
func (l *Line) Due() time.Time {
	if len(l.waiters) == 0 || l.moving {
		return time.Time{}
	}
	return l.due
}

// Move returns what is to be sent now, if anything is. Moved or Failed must follow.
func (l *Line) Move(now time.Time) (m Move, ok bool) {
	switch {
	case l.moving:
		return m, false
	case l.again && (len(l.waiters) > 0 || l.joins == 0):
	case len(l.waiters) > 0 && !now.Before(l.due):
	case placeOf(l.waiters) != l.told && l.now() != l.said:
	default:
		return m, false
	}
	return l.move(now), true
}

// Ride returns what an UNLOCK is to take along. There is nothing if nobody waits, or if a Move is under way:
// then the UNLOCK goes alone, and does not wait for that.
func (l *Line) Ride(now time.Time) (m Move, ok bool) {
	if l.moving || len(l.waiters) == 0 && l.told == Nowhere {
		return m, false
	}
	return l.move(now), true
}

func (l *Line) move(now time.Time) Move {
	l.moving, l.again, l.joined, l.due = true, false, nil, now.Add(Pulse)
	l.number++
	l.said = l.now()
	n := 0
	for n < min(len(l.waiters), MostWants) && (n == 0 || l.waiters[n].Mode == l.waiters[0].Mode &&
		!l.waiters[n].writes()) {
		n++
	}
	seen := int64(None)
	if l.joins > 0 {
		seen = l.seen
	}
	return Move{l.number, l.known, seen, slices.Clone(l.waiters[:n]), placeOf(l.waiters[n:]), now}
}

// Outcome is what a Move has come to, for its waiters.
type Outcome struct {
	In       []*Waiter // they have the lock
	Gone     []*Waiter // they have left meanwhile, and hold it, or may: it is to be given back
	Deadlock *Waiter   // is refused
}

// Moved notes the reply to a Move.
func (l *Line) Moved(m Move, r Reply) (o Outcome) {
	l.moving = false
	l.known = max(l.known, r.Last)
	if r.Stale {
		l.again = true
		return o
	}
	for _, w := range m.Wants[:r.Granted] {
		if l.remove(w) {
			o.In = append(o.In, w)
		} else {
			o.Gone = append(o.Gone, w)
		}
	}
	l.said.place = m.Next
	for _, w := range m.Wants[r.Granted:] {
		l.said.place, w.Unsure = l.said.place.With(w), false
	}
	l.told = r.Place
	if r.Granted < len(m.Wants) && (r.Anew || r.Deadlock) && l.remove(m.Wants[r.Granted]) {
		w := m.Wants[r.Granted]
		if r.Deadlock {
			o.Deadlock = w
		} else {
			w.Ticket, w.Mode = r.Ticket, Write
			if r.Ticket == 0 {
				w.Mode = Up
			}
			l.stand(w)
		}
	}
	l.moved = r.Last
	for _, w := range l.joined {
		if w.drawn > r.Last { // behind this Move, though that was told before
			l.told = l.told.With(w)
		}
	}
	l.wait(r.After, m.Sent)
	return o
}

// Failed notes that nobody knows what a Move has come to. The next one has a higher number, so this one does
// nothing if it comes later. What those who have left meanwhile may hold is to be given back.
func (l *Line) Failed(m Move) (gone []*Waiter) {
	l.moving, l.again = false, true
	for _, w := range m.Wants {
		w.Unsure = true
		if !slices.Contains(l.waiters, w) {
			gone = append(gone, w)
		}
	}
	return gone
}

// wait has the proxy ask once that time is over, unless it does so before.
func (l *Line) wait(after time.Duration, now time.Time) {
	if at := now.Add(after + late); after <= 0 {
		l.again = true
	} else if at.Before(l.due) {
		l.due = at
	}
}

// placeOf is where a proxy with these waiters stands.
func placeOf(waiters []*Waiter) Place {
	p := Nowhere
	for _, w := range waiters {
		if p = p.With(w); p.Writer < None || w.Mode == Permit {
			break
		}
	}
	return p
}

func (l *Line) stand(w *Waiter) {
	i, _ := slices.BinarySearchFunc(l.waiters, w, func(a, b *Waiter) int {
		if a.Ticket < b.Ticket {
			return -1
		}
		return 1
	})
	l.waiters = slices.Insert(l.waiters, i, w)
}

func (l *Line) remove(w *Waiter) bool {
	i := slices.Index(l.waiters, w)
	if i >= 0 {
		l.waiters = slices.Delete(l.waiters, i, i+1)
	}
	return i >= 0
}
