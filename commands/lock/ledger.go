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
	"lockproxy/redlock/locks"
)

// Ledger notes what becomes of locks. Each verb that takes or frees locks tells it of each outcome, once:
//
//	LOCK     noteWaiting, noteGranted, noteTimedOut; noteUndone if the client was not told
//	UNLOCK   noteReleased, or noteNotHeld
//	BREAK    noteBroken: LOCKCTL's, and then noteGranted, LOCK's
//	keepalive, when it ends a hold: noteLost, noteOver
//
// It measures how long locks are waited for and held, and tells others what happens, as events. The index of
// the proxy remembers since when each is held, and tells it of those whose leases end. Safe for concurrent
// use. Its methods are called on loops and on goroutines of waits alike, and none of them blocks. What is
// told to others must stay without tokens: events have digests of them.
type Ledger struct {
	prefixes []string // the longest first, and last ""
	// at prefix*len(locks.Modes) + mode
	series []series // for each prefix and mode
	index  *index.Index
	tell   atomic.Pointer[func(lockevent.Event)] // what it points to may be nil: nobody wants to know
}

// series counts how long locks of one prefix are waited for and held, in one mode. The first line has waits
// by how they ended, the second holds.
type series struct {
	granted, timedOut              durations
	released, expired, lost, broke durations
}

// NewLedger returns a Ledger of the holds in x that tells the locks apart whose names begin with one of
// prefixes. tell is that of Tell. The longest prefix that fits has a lock, and "" has all others, so each
// lock counts in one series. x must not be in use yet.
func NewLedger(x *index.Index, prefixes []string, tell func(lockevent.Event)) *Ledger {
	all := append(slices.Clone(prefixes), "")
	slices.SortFunc(all, func(a, b string) int {
		return cmp.Or(cmp.Compare(len(b), len(a)), strings.Compare(a, b))
	})
	all = slices.Compact(all)
	l := &Ledger{prefixes: all, series: make([]series, len(locks.Modes)*len(all)), index: x}
	l.Tell(tell)
	x.Tell(l.noteEnded)
	return l
}

// Tell has the events told from now on: tell gets them, on any goroutine, and must not block; nil: there are
// none.
func (l *Ledger) Tell(tell func(lockevent.Event)) { l.tell.Store(&tell) }

// maxEventName is the length up to which events show the name of a client, in bytes. Clients may give
// themselves names of any length.
const maxEventName = 128

// tellOf tells of an event, if anybody wants to know. more has the fence and the reason, if there are any.
// token and mode may be "", and who nil.
func (l *Ledger) tellOf(
	kind lockevent.Kind, name, token string, mode redlock.Mode, who *redlock.Client, more lockevent.Event,
) {
	tell := *l.tell.Load()
	if tell == nil {
		return
	}
	more.Time, more.Kind, more.Lock, more.Mode = time.Now(), kind, name, modeNames[mode]
	// never the token itself: who has it owns the lock
	if token != "" {
		more.Token = redlock.Digest(token)
	}
	if who != nil {
		more.Client = lockevent.Client(*who)
		more.Client.Name = who.Name[:min(len(who.Name), maxEventName)]
	}
	tell(more)
}

// seriesOf finds the series of a lock. There are few prefixes, so they are tried one by one.
func (l *Ledger) seriesOf(name string, mode redlock.Mode) *series {
	i := 0
	for !strings.HasPrefix(name, l.prefixes[i]) {
		i++
	}
	return &l.series[len(locks.Modes)*i+locks.Place(mode)]
}

// noteWaiting notes that a has to wait.
func (l *Ledger) noteWaiting(a *redlock.Acquire) {
	l.tellOf(lockevent.Waiting, a.Name, a.Token, a.Mode, a.Client, lockevent.Event{})
}

// noteGranted notes that a, which came then, was granted at. The fence is that of the grant. The time between
// the two is how long the client waited, also if it was granted at once.
func (l *Ledger) noteGranted(a *redlock.Acquire, fence int64, came, at time.Time) {
	l.tellOf(lockevent.Granted, a.Name, a.Token, a.Mode, a.Client, lockevent.Event{Fence: fence})
	l.seriesOf(a.Name, a.Mode).granted.countDuration(at.Sub(came))
}

// noteTimedOut notes that a, which came then, waited in vain. A LOCK that ends with an error is not counted:
// how long it would have waited says nothing.
func (l *Ledger) noteTimedOut(a *redlock.Acquire, came time.Time) {
	l.seriesOf(a.Name, a.Mode).timedOut.countDuration(time.Since(came))
	l.tellOf(lockevent.TimedOut, a.Name, a.Token, a.Mode, a.Client, lockevent.Event{})
}

// noteReleased notes that a token let go of its hold, which was granted here and has ended so if ok. A hold
// that another proxy has granted is told of, but not measured: nobody here knows since when it was held.
func (l *Ledger) noteReleased(name, token string, who *redlock.Client, e index.Ended, ok bool) {
	if ok {
		l.seriesOf(name, e.Mode).released.countDuration(e.Took)
	}
	l.tellOf(lockevent.Released, name, token, e.Mode, who, lockevent.Event{Fence: e.Fence})
}

// noteNotHeld notes that a token holds nothing any more; fence and by are those of index.Index.NotHeld. If
// its lease should still go on, somebody has ended the hold through another proxy, nobody here knows when.
func (l *Ledger) noteNotHeld(name, token string, fence int64, by redlock.HoldOwner) {
	if e, ok := l.index.NotHeld(name, token, fence, by); ok && e.Over {
		l.noteEnded(name, e)
	}
}

// noteUndone notes that the grant with that fence is given back, since its client has gone before it was
// told. To the metrics it was never held. The event is one of a release, with the reason why.
func (l *Ledger) noteUndone(a *redlock.Acquire, fence int64) {
	l.index.Undone(a.Name, a.Token, fence)
	l.tellOf(lockevent.Released, a.Name, a.Token, a.Mode, a.Client,
		lockevent.Event{Fence: fence, Reason: lockevent.Undelivered})
}

// noteEnded notes the end of a hold whose lease is over, or in whose place there is another one. It tells of
// no event: at the moment when a lease is over nobody is there who has seen it.
func (l *Ledger) noteEnded(name string, e index.Ended) {
	if s := l.seriesOf(name, e.Mode); e.Over {
		s.expired.countDuration(e.Took)
	} else {
		s.released.countDuration(e.Took)
	}
}

// noteBroken notes that a client, who asked for that then, took a lock away from its holders, but not from
// but, which may be "". What was granted after asked is another hold, and goes on.
func (l *Ledger) noteBroken(name, but string, by *redlock.Client, asked time.Time) {
	l.tellOf(lockevent.Broken, name, "", "", by, lockevent.Event{})
	for _, e := range l.index.Broken(name, but, asked) {
		if e.Over {
			l.noteEnded(name, e)
		} else {
			l.seriesOf(name, e.Mode).broke.countDuration(e.Took)
		}
	}
}

// watchHold has the Ledger told how a hold ends that is to be kept alive for a client. who is the client, as
// the events show it. It returns h with the functions set.
func (l *Ledger) watchHold(h keepalive.Hold, who *redlock.Client) keepalive.Hold {
	name, token := h.Name, h.Token
	h.Lost = func(lost keepalive.Lost) { l.noteLost(name, token, lost, who) }
	h.Over = func(how keepalive.End, fence int64) { l.noteOver(name, token, fence, how, who) }
	return h
}

// noteLost notes that a hold that was kept alive is lost. The event comes also if the hold is not known here
// any more.
func (l *Ledger) noteLost(name, token string, lost keepalive.Lost, who *redlock.Client) {
	e, ok := l.index.Freed(name, token, lost.Fence, nil)
	e.Fence = lost.Fence
	l.tellOf(lockevent.Lost, name, token, e.Mode, who,
		lockevent.Event{Fence: e.Fence, Reason: string(lost.Why)})
	switch s := l.seriesOf(name, e.Mode); {
	case !ok:
	case lost.Why == keepalive.Broken:
		s.broke.countDuration(e.Took)
	default:
		s.lost.countDuration(e.Took)
	}
}

// noteOver notes that a hold is not kept alive any more, and not lost either. If another proxy has freed it,
// that one tells of it. how keepalive.Taken is no end: another connection keeps the same hold alive.
func (l *Ledger) noteOver(name, token string, fence int64, how keepalive.End, who *redlock.Client) {
	e, ok := l.index.Freed(name, token, fence, nil)
	if ok && how != keepalive.Taken {
		l.seriesOf(name, e.Mode).released.countDuration(e.Took)
	}
	if e.Fence = fence; how == keepalive.Freed {
		l.tellOf(lockevent.Released, name, token, e.Mode, who,
			lockevent.Event{Fence: e.Fence, Reason: lockevent.Disconnected})
	}
}

// Times is how long clients waited for locks and held them, as far as this proxy has seen. They count from
// the start of the proxy on, by verb and prefix.
type Times struct {
	Waits []Durations // Outcome: granted, timeout
	Holds []Durations // Outcome: released, expired, lost, broken
	// Unmeasured are the holds that had to be forgotten before they ended.
	Unmeasured uint64
}

// Times returns what the Ledger has noted so far.
func (l *Ledger) Times() (t Times) {
	// So holds whose leases are over by now are among them.
	l.index.Expire()
	for i := range l.series {
		s, prefix := &l.series[i], l.prefixes[i/len(locks.Modes)]
		verb := [len(locks.Modes)]string{"lock", "rlock", "semlock"}[i%len(locks.Modes)]
		t.Waits = s.granted.appendCounted(t.Waits, verb, prefix, "granted")
		t.Waits = s.timedOut.appendCounted(t.Waits, verb, prefix, "timeout")
		t.Holds = s.released.appendCounted(t.Holds, verb, prefix, "released")
		t.Holds = s.expired.appendCounted(t.Holds, verb, prefix, "expired")
		t.Holds = s.lost.appendCounted(t.Holds, verb, prefix, "lost")
		t.Holds = s.broke.appendCounted(t.Holds, verb, prefix, "broken")
	}
	t.Unmeasured = l.index.Unmeasured()
	return t
}
