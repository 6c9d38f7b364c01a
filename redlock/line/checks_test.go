package line

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// mostSteps is how many events a walk may have.
const mostSteps = 200000

// newWalk is a walk that has not begun.
func newWalk(p plan, mutant string) *walk {
	w := &walk{plan: p, mutant: mutant, rng: rand.New(rand.NewPCG(p.Seed, 1)), now: 1_000_000 * ms,
		longest: int64(p.Slow) * ms, ready: map[turnOf]int64{}, served: map[int64]bool{}, failed: -1 << 40,
		redis: &redis{permits: p.Permits, holds: map[string]*hold{}, mutant: mutant}}
	w.redis.publish, w.redis.grants = w.hear, w.judge
	w.proxies = make([]*proxy, p.Proxies)
	for i := range w.proxies {
		w.newProxy(i)
	}
	return w
}

// run carries out a plan. It returns what was wrong, or "", and what happened.
func run(p plan, mutant string) (wrong string, trace []string) {
	w := newWalk(p, mutant)
	defer func() {
		if x := recover(); x != nil {
			said, ok := x.(found)
			if !ok {
				panic(x)
			}
			wrong, trace = string(said), w.trace
		}
	}()
	w.begin()
	for w.events.Len() > 0 {
		if w.step(); w.steps > mostSteps {
			w.fail("it never ends")
		}
	}
	if w.clients > 0 {
		w.fail("%d clients wait for ever", w.clients)
	}
	return "", w.trace
}

// begin has clients come, and faults happen.
func (w *walk) begin() {
	for i, visits := range w.Clients {
		w.clients++
		(&client{walk: w, name: fmt.Sprintf("c%d", i), visits: visits}).next()
	}
	w.happen(w.Faults)
}

// until lets time pass.
func (w *walk) until(at int64) {
	for w.events.Len() > 0 && w.events[0].at <= at {
		w.step()
	}
	w.now = at
}

// judge looks whether somebody was overtaken.
func (w *walk) judge(proxy, token string, ticket int64, mode Mode) {
	w.note("   granted: %s %c %d through %s", token, mode, ticket, proxy)
	writers, readers := 0, 0
	for _, h := range w.redis.holds {
		switch {
		case h.mode == Write:
			writers++
		default:
			readers++
		}
	}
	if writers > 1 || writers > 0 && readers > 0 || w.Permits > 0 && readers > w.Permits {
		w.fail("%d writers, %d others hold the lock", writers, readers)
	}
	if ticket == 0 { // a reader becomes the writer, or BREAK
		return
	}
	if w.served[ticket] && w.failed < 0 && w.Cut == 0 && ticket != None {
		w.fail("ticket %d is served twice", ticket)
	}
	w.served[ticket] = ticket != None
	for _, q := range w.all {
		if q.dead || w.excused(q) {
			continue
		}
		for waiter, since := range q.knows {
			stands := since+2*w.reach() < w.now && (q.id != proxy || since < w.sent) &&
				!w.served[waiter.Ticket] && (w.redis.holds[waiter.Token] != nil) == (waiter.Mode == Up)
			if stands && waiter.Ticket < ticket && waiter.Token != token && excludes(waiter, mode) {
				w.fail("%s, ticket %d, was overtaken by %s, ticket %d", waiter.Token, waiter.Ticket, token,
					ticket)
			}
		}
	}
}

// reach is longer than anything is under way.
func (w *walk) reach() int64 { return w.longest + ms }

// excused says that those who wait at q may be overtaken.
func (w *walk) excused(q *proxy) bool {
	return q.frozen+3*w.reach() > w.now || // it could not speak just now
		q.missed > q.spoke-2*w.reach() || // it may not have heard that the lock is offered to it
		q.cut+1200*ms+w.stalls > w.now || w.failed+detects+4*w.reach()+w.stalls > w.now
}

// excludes says that a waiter stands before others who want the lock in this mode.
func excludes(waiter *Waiter, mode Mode) bool { return waiter.writes() || mode != Read }

func (w *walk) step() {
	w.steps++
	e := w.events.pop()
	w.now = e.at
	e.do()
	w.look()
}

// waiting are those who wait at proxies that can speak, the lowest ticket first.
func (w *walk) waiting() (all []*Waiter) {
	for _, p := range w.all {
		if !p.dead && p.frozen <= w.now {
			for waiter := range p.knows {
				if !w.served[waiter.Ticket] {
					all = append(all, waiter)
				}
			}
		}
	}
	slices.SortFunc(all, func(a, b *Waiter) int {
		if a.Ticket != b.Ticket {
			return int(max(-1, min(1, a.Ticket-b.Ticket)))
		}
		return strings.Compare(a.Token, b.Token)
	})
	return all
}

// turnOf is that the lock is free for a waiter. together: it reads, and no writer stands before it, so it
// need not wait for other proxies.
type turnOf struct {
	*Waiter
	together bool
}

// look looks whether the lock is free, and somebody sleeps whose turn it is.
func (w *walk) look() {
	all := w.waiting()
	w.deadlocked(all)
	var turn []turnOf
	for i, waiter := range all {
		if i > 0 && (waiter.Mode != Read || all[0].Mode != Read) {
			break
		}
		if w.room(waiter) {
			turn = append(turn, turnOf{waiter, waiter.Mode == Read && !w.written(waiter)})
		}
	}
	for t := range w.ready {
		if !slices.Contains(turn, t) {
			delete(w.ready, t)
		}
	}
	for _, t := range turn {
		since, ok := w.ready[t]
		if !ok {
			w.ready[t], since = w.now, w.now
		}
		if most := w.bound(since, t.together); w.now-since > most {
			w.fail("%s, ticket %d, sleeps since %.3f for %.3f ms, %.3f are the most", t.Token, t.Ticket,
				float64(since)/1000, float64(w.now-since)/1000, float64(most)/1000)
		}
	}
}

// deadlocked looks whether two readers wait to become the writer.
func (w *walk) deadlocked(all []*Waiter) {
	n := 0
	for _, waiter := range all {
		if h := w.redis.holds[waiter.Token]; waiter.Mode == Up && h != nil && h.until > w.now {
			n++
		}
	}
	if n < 2 || w.failed > w.now-1000*ms || w.Cut > 0 || w.Lost > 0 {
		w.locked = 0
	} else if w.locked == 0 {
		w.locked = w.now
	} else if w.now > w.locked+6*w.reach() {
		w.fail("%d readers wait for each other", n)
	}
}

// room says that nobody keeps the waiter out who holds the lock.
func (w *walk) room(waiter *Waiter) bool {
	n := 0
	for t, h := range w.redis.holds {
		if h.until > w.now && t != waiter.Token && (waiter.Mode != Read || h.mode == Write) {
			n++
		}
	}
	return (n == 0 || waiter.Mode == Permit && n < w.Permits) && !(waiter.Mode == Read && w.behind(waiter))
}

// behind says that a reader waits because others read, and a writer waits for them. That one may be at a
// proxy that cannot speak: it is passed over once nobody reads any more.
func (w *walk) behind(waiter *Waiter) bool {
	for _, h := range w.redis.holds {
		if h.until > w.now {
			return w.written(waiter)
		}
	}
	return false
}

// written says that a writer stands before a reader. That it has died is found with the next pulse.
func (w *walk) written(waiter *Waiter) bool {
	return slices.ContainsFunc(w.redis.stands, func(e *entry) bool {
		return e.writer < waiter.Ticket && e.alive+Pulse.Microseconds() > w.now &&
			(e.offered == 0 || e.offered > w.now)
	})
}

// bound is how long somebody may wait whose turn it is since then: an offer for each proxy that cannot speak,
// or could not since; and what is under way.
func (w *walk) bound(since int64, together bool) int64 {
	long := Alive.Microseconds() + 2000*ms
	n := int64(0)
	for _, p := range w.all {
		if !together && (p.dead && p.died+long > since || p.frozen > since) {
			n++
		}
	}
	for _, at := range w.troubles {
		if !together && at > since-1200*ms {
			n++
		}
	}
	for _, at := range w.cuts { // a late copy of a Move may name a proxy that has left the line since
		if at+long > since {
			n++
		}
	}
	most := n*(Offer.Microseconds()+200*ms) + 8*w.reach()
	if w.failed > since-1000*ms {
		most += detects
	}
	if w.stalled > since-1000*ms {
		most += w.stalls + 2*Offer.Microseconds()
	}
	for _, p := range w.all { // what it hears late it reckons from then
		if p.frozen > since-1000*ms && p.frozen <= w.now {
			most += Pulse.Microseconds()
			break
		}
	}
	if w.Lost > 0 {
		most += 2 * Pulse.Microseconds()
	}
	return most
}

// drawn looks whether a ticket that was drawn just now is higher than those of all who wait.
func (w *walk) drawn(ticket int64) {
	for _, q := range w.all {
		for waiter, since := range q.knows {
			if ticket > 0 && waiter.Ticket >= ticket && since+3*w.reach() < w.now && !q.dead && w.Cut == 0 {
				w.fail("ticket %d is drawn while %s waits with %d", ticket, waiter.Token, waiter.Ticket)
			}
		}
	}
}

// present looks whether the line names a proxy that has gone, or has no waiters.
func (w *walk) present() {
	long := Alive.Microseconds() + 2000*ms + w.stalls
	for _, e := range w.redis.stands {
		i := slices.IndexFunc(w.all, func(p *proxy) bool { return p.id == e.proxy })
		p := w.all[i]
		if (p.dead || p.line.Len() == 0) && e.head != None && max(p.lone, p.frozen)+long < w.now {
			w.fail("%s stands in the line without waiters since %.3f", e.proxy, float64(p.lone)/1000)
		}
	}
}
