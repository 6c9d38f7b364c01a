package line

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"pgregory.net/rapid"
)

// plan is what clients do with the lock, and what happens meanwhile. Times are in ms.
type plan struct {
	Seed     uint64 // of delays
	Proxies  int
	Permits  int // of a semaphore; 0: it is a lock
	MaxQueue int // of each proxy
	Slow     int // the longest delay
	Lost     int // messages of 100 that are lost
	Cut      int // requests of 100 whose connection is cut
	Clients  [][]visit
	Faults   []fault
}

// visit is one LOCK and what follows.
type visit struct {
	Gap, Hold, Lease, Wait int
	Proxy                  int
	Read                   bool
	End                    string // how the hold ends
	Quit                   int    // the connection ends after so long, if it waits still; 0: it does not
	Linger                 int    // for so long it waits on then
	Also                   int    // so much later the token asks through another proxy too; 0: it does not
	Up                     bool   // a reader becomes the writer, or a writer a reader
	Least                  int
	Break                  bool
}

type fault struct {
	Gap, Proxy, For int
	Kind            string
}

var plans = rapid.Custom(func(t *rapid.T) plan {
	of := func(name string, some ...int) int { return rapid.SampledFrom(some).Draw(t, name) }
	p := plan{
		Seed: rapid.Uint64().Draw(t, "seed"), Proxies: rapid.IntRange(1, 5).Draw(t, "proxies"),
		Permits: of("permits", 0, 0, 0, 1, 2, 3), MaxQueue: of("queue", 100, 100, 100, 2),
		Slow: of("slow", 1, 1, 5, 40), Lost: of("lost", 0, 0, 0, 5, 30), Cut: of("cut", 0, 0, 0, 5, 20),
	}
	for range rapid.IntRange(1, 14).Draw(t, "clients") {
		var c []visit
		for range rapid.IntRange(1, 4).Draw(t, "visits") {
			c = append(c, visit{
				Gap: of("gap", 0, 1, 3, 30, 300, 3000), Hold: of("hold", 0, 1, 5, 20, 200),
				Lease: of("lease", 300, 3000, 3000, 20000),
				Wait:  of("wait", 0, 50, 2000, 20000, 20000, 60000),
				Proxy: rapid.IntRange(0, 4).Draw(t, "proxy"), Read: of("read", 0, 0, 1) == 1,
				End: rapid.SampledFrom([]string{"unlock", "unlock", "unlock", "elsewhere", "vanish",
					"linger"}).Draw(t, "end"),
				Quit: of("quit", 0, 0, 0, 0, 3, 30, 700), Linger: of("linger", 0, 0, 500),
				Also: of("also", 0, 0, 0, 0, 0, 2, 200), Up: of("up", 0, 0, 1) == 1,
				Least: of("least", 0, 0, 0, 0, 250), Break: of("break", 0, 0, 0, 0, 0, 0, 0, 1) == 1,
			})
		}
		p.Clients = append(p.Clients, c)
	}
	for range rapid.IntRange(0, 6).Draw(t, "faults") {
		p.Faults = append(p.Faults, fault{
			Gap: of("gap", 0, 5, 100, 1000, 5000), Proxy: rapid.IntRange(0, 4).Draw(t, "proxy"),
			For: of("for", 100, 700, 3000, 20000),
			Kind: rapid.SampledFrom([]string{"freeze", "freeze", "freeze", "kill", "failover", "forget",
				"full", "break", "stall"}).Draw(t, "kind"),
		})
	}
	return p
})

const ms = int64(1000)

// A walk is a plan that is carried out, in time of its own.
type walk struct {
	plan
	mutant string
	rng    *rand.Rand
	now    int64 // µs
	events events
	order  int
	trace  []string

	redis   *redis
	before  []snapshot // of the last scripts, newest last
	proxies []*proxy   // those of now, in the places of the plan
	all     []*proxy   // the dead too
	clients int        // that are not done

	trips    int     // requests
	longest  int64   // delay
	troubles []int64 // when something went wrong that may hold others up
	cuts     []int64 // when a connection was cut
	ready    map[turnOf]int64
	served   map[int64]bool
	failed   int64 // when the last fail-over was
	stalled  int64 // until when Redis stands still
	sent     int64 // when the script that runs was sent, if that is a Move
	stalls   int64 // how long it has, in all
	steps    int
	requests int
	locked   int64 // since when two readers wait for each other
}

type snapshot struct {
	line  string
	holds map[string]*hold
}

type event struct {
	at    int64
	order int
	do    func()
}

type events []event

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	return e[i].at < e[j].at || e[i].at == e[j].at && e[i].order < e[j].order
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)   { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	old := *e
	x := old[len(old)-1]
	*e = old[:len(old)-1]
	return x
}
func (e *events) pop() event { return heap.Pop(e).(event) }

// fault is what a walk ends with that has found something.
type found string

func (w *walk) fail(format string, args ...any) {
	panic(found(fmt.Sprintf("%.3f ms: ", float64(w.now)/1000) + fmt.Sprintf(format, args...)))
}

func (w *walk) note(format string, args ...any) {
	w.trace = append(w.trace, fmt.Sprintf("%10.3f  ", float64(w.now)/1000)+fmt.Sprintf(format, args...))
}

func (w *walk) at(at int64, do func()) {
	w.order++
	heap.Push(&w.events, event{max(at, w.now), w.order, do})
}

func (w *walk) after(d int64, do func()) { w.at(w.now+d, do) }

func (w *walk) delay() int64 { return 100 + w.rng.Int64N(w.longest) }

func (w *walk) chance(of100 int) bool { return of100 > 0 && w.rng.IntN(100) < of100 }

// proxy is one lockproxy.
type proxy struct {
	*walk
	id         string
	line       *Line
	asks       map[*Waiter]*ask
	knows      map[*Waiter]int64 // since when
	dead       bool
	frozen     int64    // until then
	out, in    [3]int64 // of each loop's connection, and that of the subscription: what is behind comes later
	hears      int64
	missed     int64 // when a message to it was lost last
	cut        int64 // when a request of it was cut last
	spoke      int64 // when its last script ran
	lone       int64 // since when it has no waiters
	timer      int64
	died       int64
	moves, ran int       // counted
	wanted     []*Waiter // by the last Moves
	asked      []int64   // when
	born       int64     // the number with which it came into the line
	open       []*ask    // whose outcomes are not known
}

func (w *walk) newProxy(place int) *proxy {
	p := &proxy{walk: w, id: fmt.Sprintf("p%d.%d", place, len(w.all)), line: New(0), asks: map[*Waiter]*ask{},
		knows: map[*Waiter]int64{}, missed: -1 << 40, cut: -1 << 40, frozen: -1 << 40, lone: w.now}
	w.proxies[place] = p
	w.all = append(w.all, p)
	return p
}

// on has p do something then, unless it is dead; if it is frozen, later.
func (p *proxy) on(at int64, do func()) {
	p.at(at, func() {
		switch {
		case p.dead:
		case p.frozen > p.now:
			p.on(p.frozen, do)
		default:
			do()
			p.pump()
		}
	})
}

func (p *proxy) time() time.Time { return time.UnixMicro(p.now) }

// pump sends what the line has to say, and sets the timer.
func (p *proxy) pump() {
	if p.mutant == "several moves at a time" {
		p.line.moving = false
	}
	if ws := p.line.waiters; p.mutant == "the second first" && len(ws) > 1 && !p.line.moving &&
		ws[0].Mode != Up && ws[0].Mode == ws[1].Mode {
		ws[0], ws[1] = ws[1], ws[0]
	}
	if m, ok := p.line.Move(p.time()); ok {
		p.idle(m)
		p.send(m, "")
	}
	if p.line.Idle() {
		if p.line = New(int64(p.moves)); p.mutant == "numbers begin anew" {
			p.line = New(0)
		}
	}
	if due := p.line.Due(); !due.IsZero() && p.timer != due.UnixMicro() {
		p.timer = due.UnixMicro()
		p.on(p.timer, func() { p.timer = 0 })
	}
	if p.line.Len() > 0 {
		p.lone = p.now
	}
}

// idle looks whether the proxy asks again and again, though nothing has happened.
func (p *proxy) idle(m Move) {
	if !slices.Equal(m.Wants, p.wanted) {
		p.wanted, p.asked = m.Wants, nil
	}
	p.asked = append(p.asked, p.now)
	if i := len(p.asked) - 10; i >= 0 && p.now-p.asked[i] < 40*ms {
		p.fail("%s asks ten times in %d µs", p.id, p.now-p.asked[i])
	}
}

// call sends a script over the connection of a loop. Each copy that arrives runs. lost says that the outcome
// is not known.
func (p *proxy) call(loop int, run func() func(), lost func(), copies bool) {
	p.trips++
	p.out[loop] = max(p.out[loop], p.now+p.delay())
	arrives, answers, late := true, true, false
	if p.chance(p.Cut) {
		p.cut = p.now
		p.cuts = append(p.cuts, p.now)
		switch p.rng.IntN(3) {
		case 0:
			arrives, answers = false, false
		case 1:
			answers = false
		case 2:
			arrives, answers, late = false, false, copies
		}
		p.on(p.now+100*ms, lost)
	}
	var script func()
	script = func() {
		if p.stalled > p.now { // Redis stands still
			p.at(p.stalled, script)
			return
		}
		p.redis.now = p.now
		p.snapshot()
		reply := run()
		p.present()
		p.note("   %s | %s", p.redis.line, p.redis.held())
		if answers {
			p.in[loop] = max(p.in[loop], p.now+p.delay())
			p.on(p.in[loop], reply)
		}
	}
	if arrives {
		p.at(p.out[loop], script)
	}
	if late {
		p.after(p.rng.Int64N(1000*ms), script)
	}
}

func (w *walk) trouble() { w.troubles = append(w.troubles, w.now) }

func (r *redis) held() string {
	var all []string
	for t, h := range r.holds {
		all = append(all, fmt.Sprintf("%s %c until %d", t, h.mode, h.until))
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

func (w *walk) snapshot() {
	s := snapshot{w.redis.line, map[string]*hold{}}
	for t, h := range w.redis.holds {
		copied := *h
		copied.asks = map[string]bool{}
		for id := range h.asks {
			copied.asks[id] = true
		}
		s.holds[t] = &copied
	}
	if w.before = append(w.before, s); len(w.before) > 8 {
		w.before = w.before[1:]
	}
}

// send sends a Move: by itself, or with the UNLOCK of a token.
func (p *proxy) send(m Move, unlocks string, then ...func()) {
	if p.mutant == "the next is not said" {
		m.Next = Nowhere
	}
	wants := make([]want, len(m.Wants))
	tickets := make([]int64, len(m.Wants))
	for i, waiter := range m.Wants {
		wants[i] = p.asks[waiter].want
		tickets[i] = waiter.Ticket
	}
	sent := m
	sent.Wants = nil
	for _, waiter := range m.Wants {
		copied := *waiter
		sent.Wants = append(sent.Wants, &copied)
	}
	p.note("%s moves %d seen %d wants %v next %v unlock %q", p.id, m.Number, m.Seen, tickets, m.Next, unlocks)
	p.moves++
	serial, at := p.moves, p.now
	p.call(2, func() func() {
		var y Reply
		p.sent = at
		stood := strings.Contains(p.redis.line, p.id+" ")
		if unlocks != "" {
			y = p.redis.release(p.id, unlocks, &sent, wants)
		} else {
			y = p.redis.take(p.id, sent, wants)
		}
		if !stood {
			p.born, p.ran = m.Number, 0
		}
		if (p.ran > serial || p.born > m.Number) && stood && !y.Stale {
			p.fail("%s: a copy of move %d counts behind later ones", p.id, m.Number)
		}
		if p.ran = max(p.ran, serial); !y.Stale {
			p.spoke = p.now
		}
		return func() {
			p.note("%s is told %+v", p.id, y)
			for _, f := range then {
				f()
			}
			p.moved(m, y)
		}
	}, func() {
		p.note("%s: move %d failed", p.id, m.Number)
		for _, waiter := range p.line.Failed(m) {
			p.giveBack(p.asks[waiter])
		}
		if p.mutant == "sent again under the same number" {
			p.line.number--
		}
		if unlocks != "" {
			p.unlock(unlocks, then...)
		}
	}, true)
}

func (p *proxy) moved(m Move, y Reply) {
	if y.Stale { // a copy of a Move that failed
		p.fail("%s: the reply to move %d, which is stale, was read", p.id, m.Number)
	}
	if p.mutant == "late replies count from now" {
		m.Sent = p.time()
	}
	if p.mutant == "who joined and left is forgotten" {
		p.line.joined = nil
	}
	o := p.line.Moved(m, y)
	for _, waiter := range o.In {
		p.granted(p.asks[waiter])
	}
	for _, waiter := range o.Gone {
		p.giveBack(p.asks[waiter])
	}
	if o.Deadlock != nil {
		a := p.asks[o.Deadlock]
		p.drop(a)
		a.over("DEADLOCK")
	}
}

// unlock frees the hold of a token.
func (p *proxy) unlock(token string, then ...func()) {
	if p.mutant != "UNLOCK goes alone" {
		if m, ok := p.line.Ride(p.time()); ok {
			p.send(m, token, then...)
			return
		}
	}
	p.note("%s unlocks %s", p.id, token)
	p.call(p.rng.IntN(2), func() func() {
		p.redis.release(p.id, token, nil, nil)
		return func() {
			for _, f := range then {
				f()
			}
		}
	}, func() { p.unlock(token, then...) }, false)
}

// ask is one request of a client for the lock.
type ask struct {
	*proxy
	want    want
	waiter  *Waiter
	gone    bool // nobody waits for its outcome
	told    bool
	granted func()
	over    func(why string)
}

// lock sends a LOCK.
func (p *proxy) lock(a *ask) {
	if p.line.Len() >= p.MaxQueue {
		a.want.wait = false
	}
	p.line.Join(p.time())
	p.note("%s locks %+v", p.id, a.want)
	p.again(a)
}

func (p *proxy) again(a *ask) {
	known, number := p.line.Says()
	sent := p.time()
	p.call(p.rng.IntN(2), func() func() {
		if !strings.Contains(p.redis.line, p.id+" ") {
			p.born, p.ran = number, 0
		}
		p.sent = p.now
		y, err := p.redis.lock(p.id, a.want, known, number)
		p.drawn(y.Ticket)
		return func() {
			p.note("%s is told of %s: %+v %s", p.id, a.want.id, y, err)
			if p.mutant == "a LOCK is not told of an offer" {
				y.After = max(y.After, Pulse)
			}
			switch {
			case err != "" || y.Granted > 0:
				p.line.Joined(nil, y, sent)
				if err != "" {
					a.over(err)
				} else {
					p.granted(a)
				}
				return
			}
			a.waiter = &Waiter{Mode: a.want.mode, Token: a.want.token}
			if y.Ticket == 0 {
				a.waiter.Mode = Up
			}
			p.asks[a.waiter], p.knows[a.waiter] = a, p.now
			if y.Last < p.line.seen { // overtaken by a later reply: a Move may have forgotten it
				p.knows[a.waiter] += 2*p.reach() + p.stalls
			}
			if p.mutant == "late replies count from now" {
				sent = p.time()
			}
			if !p.line.Joined(a.waiter, y, sent) {
				p.drop(a)
				a.over("DEADLOCK")
			}
			if a.gone {
				p.leave(a)
			}
			if p.mutant == "all waiters ask" {
				p.on(p.now+y.After.Microseconds(), func() { p.line.Deaf() })
			}
		}
	}, func() { p.again(a) }, false)
}

func (p *proxy) drop(a *ask) {
	delete(p.knows, a.waiter)
}

// granted takes a grant.
func (p *proxy) granted(a *ask) {
	if a.waiter != nil {
		p.drop(a)
	}
	if a.told {
		p.fail("%s is told twice of its grant", a.want.id)
	}
	a.told = true
	if a.gone {
		p.giveBack(a)
		return
	}
	a.granted()
}

// giveBack gives back what a request may have got.
func (p *proxy) giveBack(a *ask) {
	p.note("%s gives back %s", p.id, a.want.id)
	p.call(p.rng.IntN(2), func() func() {
		p.redis.cancel(a.want.token, a.want.id)
		return func() {}
	}, func() { p.giveBack(a) }, false)
}

// leave ends a wait.
func (p *proxy) leave(a *ask) {
	a.gone = true
	if a.waiter == nil || a.told {
		return
	}
	p.note("%s: %s leaves", p.id, a.want.id)
	p.drop(a)
	clean := p.line.told == placeOf(p.line.waiters)
	if p.line.Leave(a.waiter) {
		p.giveBack(a)
	}
	if clean && p.mutant == "leaving is not told" {
		p.line.told = placeOf(p.line.waiters)
	}
}

// hear has all proxies with waiters hear a message.
func (w *walk) hear(m message) {
	w.note("   message: to %v, after %v", m.to, m.after)
	for _, p := range w.all {
		mine := slices.Contains(m.to, p.id)
		if p.dead || p.line.Idle() || !mine && len(m.to) > 0 && w.mutant == "an offer is told to one" {
			continue
		}
		if w.chance(w.Lost) {
			p.missed = w.now
			w.trouble()
			continue
		}
		p.hears = max(p.hears, w.now+w.delay())
		p.on(p.hears, func() {
			if mine && len(p.line.waiters) == 0 && p.mutant == "an early offer is forgotten" {
				return
			}
			p.line.Hear(mine, m.after, p.time())
		})
	}
}
