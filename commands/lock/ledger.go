package lock

import (
	"cmp"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"lockproxy/internal/lockevent"
	"lockproxy/redlock"
	"lockproxy/redlock/keepalive"
)

// Ledger notes what becomes of locks. Each verb that takes or frees locks tells it of each outcome, once:
//
//	LOCK     waiting, granted, timedOut; undone if the client was not told
//	RENEW    renewed
//	UNLOCK   released, or notHeld
//	BREAK    broken: LOCKCTL's, and then granted, LOCK's
//	keepalive, when it ends a hold: lost, over
//
// It measures how long locks are waited for and held, and tells others what happens, as events. Safe for
// concurrent use. A nil Ledger notes nothing.
type Ledger struct {
	prefixes []string // the longest first, and last ""
	series   []series // for each prefix and mode
	held     *heldSince
	tell     atomic.Pointer[func(lockevent.Event)] // nil: nobody wants to know
}

// series counts how long locks of one prefix are waited for and held, in one mode.
type series struct {
	granted, timedOut              durations
	released, expired, lost, broke durations
}

// modes are those that are counted apart, as the verbs LOCK, RLOCK and SEMLOCK.
var modes = [...]redlock.Mode{redlock.Write, redlock.Read, redlock.Permit}

// NewLedger returns a Ledger that tells the locks apart whose names begin with one of prefixes. tell is that
// of Tell.
func NewLedger(prefixes []string, tell func(lockevent.Event)) *Ledger {
	all := append(slices.Clone(prefixes), "")
	slices.SortFunc(all, func(a, b string) int {
		return cmp.Or(cmp.Compare(len(b), len(a)), strings.Compare(a, b))
	})
	all = slices.Compact(all)
	l := &Ledger{prefixes: all, series: make([]series, len(modes)*len(all)), held: newHeldSince()}
	l.Tell(tell)
	return l
}

// Tell has the events told from now on: tell gets them, on any goroutine, and must not block; nil: there are
// none.
func (l *Ledger) Tell(tell func(lockevent.Event)) {
	if tell == nil {
		l.tell.Store(nil)
		return
	}
	l.tell.Store(&tell)
}

// maxEventName is the length up to which events show the name of a client.
const maxEventName = 128

// event tells of an event, if anybody wants to know.
func (l *Ledger) event(kind lockevent.Kind, name, token string, who *redlock.Client, more lockevent.Event) {
	tell := l.tell.Load()
	if tell == nil {
		return
	}
	more.Time, more.Kind, more.Lock = time.Now(), kind, name
	if token != "" {
		more.Token = redlock.Digest(token)
	}
	if who != nil {
		more.Client = lockevent.Client(*who)
		more.Client.Name = who.Name[:min(len(who.Name), maxEventName)]
	}
	(*tell)(more)
}

// of finds the series of a lock.
func (l *Ledger) of(name string, mode redlock.Mode) *series {
	i := 0
	for !strings.HasPrefix(name, l.prefixes[i]) {
		i++
	}
	return &l.series[len(modes)*i+max(slices.Index(modes[:], mode), 0)]
}

// waiting notes that a has to wait.
func (l *Ledger) waiting(a *redlock.Acquire) {
	if l != nil {
		l.event(lockevent.Waiting, a.Name, a.Token, a.Client, lockevent.Event{Mode: modeNames[a.Mode]})
	}
}

// granted notes that a, which came then, was granted at. The fence is that of the grant.
func (l *Ledger) granted(a *redlock.Acquire, fence int64, came, at time.Time) {
	if l == nil {
		return
	}
	l.event(lockevent.Granted, a.Name, a.Token, a.Client,
		lockevent.Event{Mode: modeNames[a.Mode], Fence: fence})
	s := l.of(a.Name, a.Mode)
	s.granted.observe(at.Sub(came))
	l.held.note(a, heldOne{series: s, fence: fence, mode: a.Mode}, at, l.ended)
}

// timedOut notes that a, which came then, waited in vain.
func (l *Ledger) timedOut(a *redlock.Acquire, came time.Time) {
	if l == nil {
		return
	}
	l.of(a.Name, a.Mode).timedOut.observe(time.Since(came))
	l.event(lockevent.TimedOut, a.Name, a.Token, a.Client, lockevent.Event{Mode: modeNames[a.Mode]})
}

// renewed notes that a hold goes on until then, or for as long as it is kept alive.
func (l *Ledger) renewed(name, token string, until time.Time, keep bool) {
	if l != nil {
		l.held.prolong(name, token, until, keep)
	}
}

// released notes that a token let go of its hold.
func (l *Ledger) released(name, token string, who *redlock.Client) {
	if l == nil {
		return
	}
	one, ok := l.held.end(name, token, 0)
	if ok {
		one.series.released.observe(l.held.now() - one.since)
	}
	l.event(lockevent.Released, name, token, who, one.event(""))
}

// notHeld notes that a token holds nothing any more. If its lease should still go on, somebody has ended the
// hold through another proxy, nobody here knows when.
func (l *Ledger) notHeld(name, token string) {
	if l == nil {
		return
	}
	if one, ok := l.held.end(name, token, 0); ok && one.until < l.held.now() {
		l.ended(one)
	}
}

// undone notes that the grant with that fence is given back, since its client has gone before it was told.
func (l *Ledger) undone(a *redlock.Acquire, fence int64) {
	if l == nil {
		return
	}
	l.held.end(a.Name, a.Token, fence)
	l.event(lockevent.Released, a.Name, a.Token, a.Client,
		lockevent.Event{Mode: modeNames[a.Mode], Fence: fence, Reason: lockevent.Undelivered})
}

// ended notes the end of a hold whose lease is over, or in whose place its token has another one.
func (l *Ledger) ended(one heldOne) {
	if now := l.held.now(); one.until > now {
		one.series.released.observe(now - one.since)
	} else {
		one.series.expired.observe(one.until - one.since)
	}
}

// broken notes that a client took a lock away from its holders, but not from but, which may be "".
func (l *Ledger) broken(name, but string, by *redlock.Client) {
	if l == nil {
		return
	}
	l.event(lockevent.Broken, name, "", by, lockevent.Event{})
	lock := l.held.lock(name)
	own := l.held.id(lock, but)
	for _, one := range l.held.endAll(func(h *heldOne) bool { return h.lock == lock && h.id != own }) {
		if now := l.held.now(); one.until > now {
			one.series.broke.observe(now - one.since)
		} else {
			l.ended(one)
		}
	}
}

// keeping has the Ledger told how a hold ends that is to be kept alive for a client.
func (l *Ledger) keeping(h keepalive.Hold, who *redlock.Client) keepalive.Hold {
	if l != nil {
		name, token := h.Name, h.Token
		h.Lost = func(lost keepalive.Lost) { l.lost(name, token, lost, who) }
		h.Over = func(how keepalive.End, fence int64) { l.over(name, token, fence, how, who) }
	}
	return h
}

// lost notes that a hold that was kept alive is lost.
func (l *Ledger) lost(name, token string, lost keepalive.Lost, who *redlock.Client) {
	one, ok := l.held.end(name, token, lost.Fence)
	one.fence = lost.Fence
	l.event(lockevent.Lost, name, token, who, one.event(string(lost.Why)))
	switch took := l.held.now() - one.since; {
	case !ok:
	case lost.Why == keepalive.Broken:
		one.series.broke.observe(took)
	default:
		one.series.lost.observe(took)
	}
}

// over notes that a hold is not kept alive any more, and not lost either. If another proxy has freed it, that
// one tells of it.
func (l *Ledger) over(name, token string, fence int64, how keepalive.End, who *redlock.Client) {
	one, ok := l.held.end(name, token, fence)
	if ok && how != keepalive.Taken {
		one.series.released.observe(l.held.now() - one.since)
	}
	if one.fence = fence; how == keepalive.Freed {
		l.event(lockevent.Released, name, token, who, one.event(lockevent.Disconnected))
	}
}

// Times is how long clients waited for locks and held them, as far as this proxy has seen.
type Times struct {
	Waits []Durations // Outcome: granted, timeout
	Holds []Durations // Outcome: released, expired, lost, broken
	// Unmeasured are the holds that had to be forgotten before they ended.
	Unmeasured uint64
}

// Times returns what the Ledger has noted so far.
func (l *Ledger) Times() (t Times) {
	if l == nil {
		return t
	}
	now := l.held.now()
	for _, one := range l.held.endAll(func(h *heldOne) bool { return h.until < now }) {
		l.ended(one)
	}
	for i := range l.series {
		s, prefix := &l.series[i], l.prefixes[i/len(modes)]
		verb := [len(modes)]string{"lock", "rlock", "semlock"}[i%len(modes)]
		t.Waits = s.granted.list(t.Waits, verb, prefix, "granted")
		t.Waits = s.timedOut.list(t.Waits, verb, prefix, "timeout")
		t.Holds = s.released.list(t.Holds, verb, prefix, "released")
		t.Holds = s.expired.list(t.Holds, verb, prefix, "expired")
		t.Holds = s.lost.list(t.Holds, verb, prefix, "lost")
		t.Holds = s.broke.list(t.Holds, verb, prefix, "broken")
	}
	t.Unmeasured = l.held.forgotten.Load()
	return t
}
