package line

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// redis is one lock in Redis. A method is a script: it runs at once and whole, at the time now (µs).
//
// Everything about who waits is in the field line:
//
//	"last told;proxy head writer up seen alive offered number;proxy ..."
//
//	last     the highest ticket that was drawn
//	told     when all who wait are going to ask again, at the latest
//	head     the lowest ticket of the proxy; - none
//	writer   the lowest ticket of one there that wants to write; - none
//	up       the token whose ticket is 0; - none
//	seen     the highest ticket that was drawn for the proxy
//	alive    until when it stands in the line unless it speaks
//	offered  0; or until when the lock is kept for it. Once that is over, the others pass it over, until it
//	         speaks
//	number   of the last Move that it has made
type redis struct {
	permits int // of a semaphore; 0: it is a lock
	full    bool
	now     int64
	holds   map[string]*hold // by token; what rests has a token of nobody
	line    string

	publish func(message)
	grants  func(proxy, token string, ticket int64, mode Mode) // tells of a new hold; for those who check
	mutant  string                                             // see mutants

	last, told int64 // of the script that runs, as the next ones
	stands     []*entry
}

type hold struct {
	mode  Mode
	until int64
	least int64           // it rests until then if it is freed before
	asks  map[string]bool // the requests whose clients were told of it
}

// entry is where a proxy stands.
type entry struct {
	proxy                string
	head, writer         int64
	up                   string
	seen, alive, offered int64
	number               int64
}

// message is what all proxies with waiters hear.
type message struct {
	to    []string // the lock is offered to these
	after time.Duration
}

// want is what a client asks for.
type want struct {
	id, token    string
	mode         Mode
	lease, least int64
	wait         bool
}

func number(n int64) string {
	if n == None {
		return "-"
	}
	return fmt.Sprint(n)
}

func parse(s string) (n int64) {
	if s == "-" {
		return None
	}
	for _, c := range s {
		n = 10*n + int64(c-'0')
	}
	return n
}

// begin reads the line, and forgets what is over.
func (r *redis) begin() {
	r.last, r.told, r.stands = 0, 0, nil
	for i, part := range strings.Split(r.line, ";") {
		f := strings.Fields(part)
		switch {
		case i == 0 && len(f) == 2:
			r.last, r.told = parse(f[0]), parse(f[1])
		case len(f) == 8:
			e := &entry{f[0], parse(f[1]), parse(f[2]), f[3], parse(f[4]), parse(f[5]), parse(f[6]),
				parse(f[7])}
			if e.alive > r.now || r.mutant == "nobody dies" {
				r.stands = append(r.stands, e)
			}
		}
	}
	r.wasAway()
	maps.DeleteFunc(r.holds, func(_ string, h *hold) bool { return h.until <= r.now })
}

// wasAway has offers made again that ended while nobody could ask, because this Redis stood still: nobody of
// the line has spoken since, although the others ask as soon as an offer is over.
func (r *redis) wasAway() {
	heard := int64(0)
	for _, e := range r.stands {
		heard = max(heard, e.alive-Alive.Microseconds())
	}
	for _, e := range r.stands {
		if r.passed(e) && heard < e.offered && e.offered+Offer.Microseconds()/5 < r.now &&
			r.mutant != "nobody looks whether Redis was away" {
			e.offered = 0
		}
	}
}

// end offers the lock to whom it is free for, tells the others if it is free earlier than they know, and
// writes the line. It returns for how long asks need not ask again; 0: the lock is offered to it. moved says
// that this is the reply to a Move, which is certain to be heard: it needs no message.
func (r *redis) end(asks string, moved bool) time.Duration {
	slices.SortStableFunc(r.stands, func(a, b *entry) int { return int(min(1, max(-1, a.head-b.head))) })
	var to []string
	mine := false
	for _, e := range r.stands {
		if e.head != None && e.offered == 0 && r.open(e) {
			e.offered = r.now + Offer.Microseconds()
			if e.proxy != asks || !moved {
				to = append(to, e.proxy)
			}
			if r.mutant == "passed over at once" {
				e.offered = r.now
			}
		}
		mine = mine || e.proxy == asks && e.offered > r.now
	}
	if len(to) > 0 || mine && moved {
		r.publish(message{to, Offer})
	}
	next, line := r.now+Pulse.Microseconds(), ""
	r.stands = slices.DeleteFunc(r.stands, func(e *entry) bool { return e.head == None })
	free := r.frees()
	if len(r.stands) > 0 && free < r.told && free > r.now && r.mutant != "shorter leases are not told" {
		r.publish(message{nil, time.Duration(free-r.now) * time.Microsecond})
		r.told = free
	}
	next = min(next, free)
	for _, e := range r.stands {
		if e.proxy != asks && e.offered > r.now {
			next = min(next, e.offered)
		}
		line += ";" + strings.Join([]string{e.proxy, number(e.head), number(e.writer), e.up, number(e.seen),
			number(e.alive), number(e.offered), number(e.number)}, " ")
	}
	if asks != "" && !mine {
		r.told = max(r.told, next)
	}
	if r.line = ""; line != "" {
		r.line = number(r.last) + " " + number(r.told) + line
	}
	if mine {
		return 0
	}
	return max(time.Duration(next-r.now)*time.Microsecond, time.Millisecond)
}

// of is the entry of a proxy, which speaks: it is passed over no longer.
func (r *redis) of(proxy string) *entry {
	i := slices.IndexFunc(r.stands, func(e *entry) bool { return e.proxy == proxy })
	if i < 0 {
		r.stands = append(r.stands, &entry{proxy: proxy, head: None, writer: None, up: "-"})
		i = len(r.stands) - 1
	}
	e := r.stands[i]
	if r.mutant != "alive is not renewed" || e.alive == 0 {
		e.alive = r.now + Alive.Microseconds()
	}
	if r.passed(e) && r.mutant != "passed over for ever" {
		e.offered = 0
	}
	return e
}

func (r *redis) passed(e *entry) bool {
	return e.offered > 0 && e.offered <= r.now && r.mutant != "nobody is passed over"
}

// before says that somebody stands before a ticket and keeps it out. but is not looked at.
func (r *redis) before(but *entry, ticket int64, mode Mode) bool {
	free := r.permits - len(r.holds)
	for _, e := range r.stands {
		first := e.head
		if mode == Read && r.mutant != "readers wait for readers" {
			first = e.writer
		}
		if mode == Read && r.mutant == "readers pass writers" || mode == Write &&
			r.mutant == "writers pass readers" {
			first = None
			if mode == Write {
				first = e.writer
			}
		}
		if e != but && !r.passed(e) && first < ticket {
			if free--; mode != Permit || free <= 0 || r.mutant != "an offer for each permit" {
				return true
			}
		}
	}
	return false
}

// room says that the holds of others, but for token, leave room.
func (r *redis) room(token string, mode Mode) bool {
	n := 0
	for t, h := range r.holds {
		if t != token && (mode != Read || h.mode == Write) {
			n++
		}
	}
	return n == 0 || mode == Permit && n < r.permits
}

// open says that the head of a proxy may go in.
func (r *redis) open(e *entry) bool {
	mode := Read
	switch {
	case e.head == 0:
		return r.room(e.up, Up)
	case r.permits > 0:
		mode = Permit
	case e.head == e.writer:
		mode = Write
	}
	return r.room("", mode) && !r.before(e, e.head, mode)
}

// frees is when there is more room by itself.
func (r *redis) frees() int64 {
	if len(r.holds) == 0 || r.permits > len(r.holds) {
		return None
	}
	first, last := int64(None), int64(0)
	for t, h := range r.holds {
		first = min(first, h.until)
		if !slices.ContainsFunc(r.stands, func(e *entry) bool { return e.up == t }) || h.mode == Write {
			last = max(last, h.until)
		}
	}
	switch {
	case r.permits > 0:
		return first
	case last == 0 && r.mutant != "the reader that is left is waited for":
		return None // it is to become the writer
	}
	return last
}

// upgrading says that another living reader waits to become the writer.
func (r *redis) upgrading(token string) bool {
	return r.mutant != "no DEADLOCK" && slices.ContainsFunc(r.stands, func(e *entry) bool {
		return e.head == 0 && e.up != token && r.holds[e.up] != nil && !r.passed(e)
	})
}

// draw is a new ticket. It is higher than those of before a fail-over too, since it is what the clock shows.
func (r *redis) draw() int64 {
	if r.mutant == "tickets are counted" {
		r.last++
	} else {
		r.last = max(r.last+1, r.now)
	}
	return r.last
}

func (r *redis) make(proxy string, w want, ticket int64) {
	r.holds[w.token] = &hold{w.mode, r.now + w.lease, r.now + w.least, map[string]bool{w.id: true}}
	r.grants(proxy, w.token, ticket, w.mode)
}

// own asks again for what the token holds. done: it has it.
func (r *redis) own(proxy string, w want) (has, done bool) {
	h := r.holds[w.token]
	if h == nil {
		return false, false
	}
	switch {
	case w.mode == Read: // also the writer that becomes a reader
		h.mode = Read
	case w.mode != Permit && h.mode == Read:
		if !r.room(w.token, Up) {
			return true, false
		}
		h.mode = Write
		r.grants(proxy, w.token, 0, Up)
	}
	h.asks[w.id] = true
	h.until = max(h.until, r.now+w.lease)
	return true, true
}

// lock is a LOCK. known and number are what Line.Says returned.
func (r *redis) lock(proxy string, w want, known, number int64) (y Reply, err string) {
	r.begin()
	r.last = max(r.last, known)
	e := r.of(proxy)
	if e.number = max(e.number, number); r.mutant == "a LOCK says no number" {
		e.number = 0
	}
	has, done := r.own(proxy, w)
	newest := int64(None)
	if r.mutant == "LOCK goes before who waits here" {
		newest = e.head
	}
	switch {
	case done:
		y.Granted = 1
	case r.full:
		err = "OOM"
	case !has && r.room("", w.mode) && !r.before(nil, newest, w.mode):
		r.make(proxy, w, None)
		y.Granted = 1
	case !w.wait:
		err = "held"
	case has && r.upgrading(w.token):
		err = "DEADLOCK"
	default:
		y.Ticket = r.draw()
		e.seen = y.Ticket
		if has {
			e.up, y.Ticket = w.token, 0
		}
		e.head = min(e.head, y.Ticket)
		if w.mode == Write {
			e.writer = min(e.writer, y.Ticket)
		}
	}
	y.Last, y.Place = r.last, Place{e.head, e.writer}
	y.After = r.end(proxy, false)
	return y, err
}

// move is what a script does for the line of its proxy. wants are the clients of m.Wants.
func (r *redis) move(proxy string, m Move, wants []want) (y Reply) {
	for _, e := range r.stands {
		if e.proxy == proxy && m.Number < e.number && r.mutant != "late copies count" {
			r.end("", false) // a copy that comes late is no sign of life
			return Reply{Stale: true}
		}
	}
	e := r.of(proxy)
	e.number, e.offered = m.Number, 0
	r.last = max(r.last, m.Known)
	rest := m.Next
	e.up = "-"
	for i, w := range wants {
		has, done := r.own(proxy, w)
		switch mode := m.Wants[i].Mode; {
		case done:
		case has && w.mode != Permit && r.upgrading(w.token):
			y.Deadlock = true
		case has:
			e.up, rest, y.Anew = w.token, Place{0, 0}, mode != Up
		case mode == Up: // its shared hold is over
			y.Anew, y.Ticket = true, r.draw()
			rest = rest.With(&Waiter{Ticket: y.Ticket, Mode: Write})
		case r.room("", w.mode) && !r.before(e, m.Wants[i].Ticket, w.mode):
			r.make(proxy, w, m.Wants[i].Ticket)
			done = true
		default:
			rest = rest.With(m.Wants[i])
		}
		if !done {
			break
		}
		y.Granted++
	}
	if e.seen > m.Seen && r.mutant != "who joins meanwhile is forgotten" { // who joined, and is not known yet
		rest = rest.With(&Waiter{Ticket: m.Seen + 1, Mode: Write})
	}
	e.head, e.writer = rest.Head, rest.Writer
	y.Last, y.Place, y.After = r.last, rest, r.end(proxy, true)
	return y
}

func (r *redis) take(proxy string, m Move, wants []want) Reply {
	r.begin()
	return r.move(proxy, m, wants)
}

// free frees a hold that its owner gives up. What is to rest goes on, as a hold of nobody.
func (r *redis) free(token string) {
	h := r.holds[token]
	delete(r.holds, token)
	if h != nil && h.least > r.now {
		r.holds["-"+token] = &hold{h.mode, h.least, 0, nil}
	}
}

// release is an UNLOCK. m goes along if a proxy has something to say.
func (r *redis) release(proxy, token string, m *Move, wants []want) (y Reply) {
	r.begin()
	r.free(token)
	if m == nil {
		r.end("", false)
		return y
	}
	return r.move(proxy, *m, wants)
}

// cancel takes back what a request has got, unless others were told of it.
func (r *redis) cancel(token, id string) {
	r.begin()
	if h := r.holds[token]; h != nil && h.asks[id] {
		if delete(h.asks, id); len(h.asks) == 0 {
			delete(r.holds, token)
		}
	}
	r.end("", false)
}

// renew makes a lease longer.
func (r *redis) renew(token string, lease int64) {
	r.begin()
	if h := r.holds[token]; h != nil {
		h.until = max(h.until, r.now+lease)
	}
	r.end("", false)
}

// break_ ends all holds. w, if given, gets the lock.
func (r *redis) break_(proxy string, w *want) {
	r.begin()
	clear(r.holds)
	if w != nil {
		r.make(proxy, *w, 0)
	}
	r.end("", false)
}
