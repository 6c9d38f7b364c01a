package lock

import (
	"cmp"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"lockproxy/internal/lockevent"
	"lockproxy/redlock"
	"lockproxy/redlock/index"
	"lockproxy/redlock/keepalive"
)

// Ledger notes what becomes of locks. Each verb that takes or frees locks tells it of each outcome, once:
//
//	LOCK     waiting, granted, timedOut; undone if the client was not told
//	UNLOCK   released, or notHeld
//	BREAK    broken: LOCKCTL's, and then granted, LOCK's
//	keepalive, when it ends a hold: lost, over
//
// It measures how long locks are waited for and held, and tells others what happens, as events. The index of
// the proxy remembers since when each is held, and tells it of those whose leases end. Safe for concurrent
// use.
type Ledger struct {
	prefixes []string // the longest first, and last ""
	series   []series // for each prefix and mode
	index    *index.Index
	tell     atomic.Pointer[func(lockevent.Event)] // nil: nobody wants to know
}

// series counts how long locks of one prefix are waited for and held, in one mode.
type series struct {
	granted, timedOut              durations
	released, expired, lost, broke durations
}

// modes are those that are counted apart, as the verbs LOCK, RLOCK and SEMLOCK.
var modes = [...]redlock.Mode{redlock.Write, redlock.Read, redlock.Permit}

// NewLedger returns a Ledger of the holds in x that tells the locks apart whose names begin with one of
// prefixes. tell is that of Tell.
func NewLedger(x *index.Index, prefixes []string, tell func(lockevent.Event)) *Ledger {
	all := append(slices.Clone(prefixes), "")
	slices.SortFunc(all, func(a, b string) int {
		return cmp.Or(cmp.Compare(len(b), len(a)), strings.Compare(a, b))
	})
	all = slices.Compact(all)
	l := &Ledger{prefixes: all, series: make([]series, len(modes)*len(all)), index: x}
	x.Tell(l.ended)
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
	l.event(lockevent.Waiting, a.Name, a.Token, a.Client, lockevent.Event{Mode: modeNames[a.Mode]})
}

// granted notes that a, which came then, was granted at. The fence is that of the grant.
func (l *Ledger) granted(a *redlock.Acquire, fence int64, came, at time.Time) {
	l.event(lockevent.Granted, a.Name, a.Token, a.Client,
		lockevent.Event{Mode: modeNames[a.Mode], Fence: fence})
	l.of(a.Name, a.Mode).granted.observe(at.Sub(came))
}

// timedOut notes that a, which came then, waited in vain.
func (l *Ledger) timedOut(a *redlock.Acquire, came time.Time) {
	l.of(a.Name, a.Mode).timedOut.observe(time.Since(came))
	l.event(lockevent.TimedOut, a.Name, a.Token, a.Client, lockevent.Event{Mode: modeNames[a.Mode]})
}

// released notes that a token let go of its hold, which was granted here and has ended so if ok.
func (l *Ledger) released(name, token string, who *redlock.Client, e index.Ended, ok bool) {
	if ok {
		l.of(name, e.Mode).released.observe(e.Took)
	}
	l.event(lockevent.Released, name, token, who, ending(e, ""))
}

// ending is what an event tells of a hold that ends; of one that is not known, that is little.
func ending(e index.Ended, why string) lockevent.Event {
	return lockevent.Event{Mode: modeNames[e.Mode], Fence: e.Fence, Reason: why}
}

// notHeld notes that a token holds nothing any more. If its lease should still go on, somebody has ended the
// hold through another proxy, nobody here knows when.
func (l *Ledger) notHeld(name string, e index.Ended, ok bool) {
	if ok && e.Over {
		l.ended(name, e)
	}
}

// undone notes that the grant with that fence is given back, since its client has gone before it was told.
func (l *Ledger) undone(a *redlock.Acquire, fence int64) {
	l.index.Undone(a.Name, a.Token, fence)
	l.event(lockevent.Released, a.Name, a.Token, a.Client,
		lockevent.Event{Mode: modeNames[a.Mode], Fence: fence, Reason: lockevent.Undelivered})
}

// ended notes the end of a hold whose lease is over, or in whose place there is another one.
func (l *Ledger) ended(name string, e index.Ended) {
	if s := l.of(name, e.Mode); e.Over {
		s.expired.observe(e.Took)
	} else {
		s.released.observe(e.Took)
	}
}

// broken notes that a client, who asked for that then, took a lock away from its holders, but not from but,
// which may be "".
func (l *Ledger) broken(name, but string, by *redlock.Client, asked time.Time) {
	l.event(lockevent.Broken, name, "", by, lockevent.Event{})
	for _, e := range l.index.Broken(name, but, asked) {
		if e.Over {
			l.ended(name, e)
		} else {
			l.of(name, e.Mode).broke.observe(e.Took)
		}
	}
}

// keeping has the Ledger told how a hold ends that is to be kept alive for a client.
func (l *Ledger) keeping(h keepalive.Hold, who *redlock.Client) keepalive.Hold {
	name, token := h.Name, h.Token
	h.Lost = func(lost keepalive.Lost) { l.lost(name, token, lost, who) }
	h.Over = func(how keepalive.End, fence int64) { l.over(name, token, fence, how, who) }
	return h
}

// lost notes that a hold that was kept alive is lost.
func (l *Ledger) lost(name, token string, lost keepalive.Lost, who *redlock.Client) {
	e, ok := l.index.Freed(name, token, lost.Fence, nil)
	e.Fence = lost.Fence
	l.event(lockevent.Lost, name, token, who, ending(e, string(lost.Why)))
	switch s := l.of(name, e.Mode); {
	case !ok:
	case lost.Why == keepalive.Broken:
		s.broke.observe(e.Took)
	default:
		s.lost.observe(e.Took)
	}
}

// over notes that a hold is not kept alive any more, and not lost either. If another proxy has freed it, that
// one tells of it.
func (l *Ledger) over(name, token string, fence int64, how keepalive.End, who *redlock.Client) {
	e, ok := l.index.Freed(name, token, fence, nil)
	if ok && how != keepalive.Taken {
		l.of(name, e.Mode).released.observe(e.Took)
	}
	if e.Fence = fence; how == keepalive.Freed {
		l.event(lockevent.Released, name, token, who, ending(e, lockevent.Disconnected))
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
	l.index.Expire()
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
	t.Unmeasured = l.index.Unmeasured()
	return t
}
