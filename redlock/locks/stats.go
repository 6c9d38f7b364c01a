package locks

import (
	"bytes"
	"sync/atomic"

	"lockproxy/internal/resp"
	"lockproxy/redlock"
	"lockproxy/redlock/keepalive"
)

// counters count what a Locker does.
type counters struct {
	granted, refused, failed [3]atomic.Uint64 // by mode: write, read, permit
	released, notHeld        atomic.Uint64
	renewed, notRenewed      atomic.Uint64
	guarded, notGuarded      atomic.Uint64
	waits, timedOut, waiting atomic.Int64
	unsynced                 atomic.Uint64
	sets, noSets, failedSets atomic.Uint64
}

// Stats is what a Locker has done since it was made. In JSON, proxies tell it each other.
type Stats struct {
	// LOCK, WLOCK, RLOCK and SEMLOCK: granted, held by others, failed.
	Granted ByMode `json:"granted"`
	Refused ByMode `json:"refused"`
	Failed  ByMode `json:"failed"`
	// UNLOCK: released or counted down; held nothing.
	Released uint64 `json:"released"`
	NotHeld  uint64 `json:"not_held"`
	// RENEW.
	Renewed    uint64 `json:"renewed"`
	NotRenewed uint64 `json:"not_renewed"`
	// GUARD: run without an error; held nothing. Not those in MULTI.
	Guarded    uint64 `json:"guarded"`
	NotGuarded uint64 `json:"not_guarded"`
	// MLOCK: granted, one was held by others, failed.
	Sets       uint64 `json:"sets_granted"`
	NoSets     uint64 `json:"sets_refused"`
	FailedSets uint64 `json:"sets_failed"`
	// LOCKs that had to wait, those whose wait was in vain, those that wait now.
	Waits    uint64 `json:"waits"`
	TimedOut uint64 `json:"timed_out"`
	Waiting  int    `json:"waiters"`
	Unsynced uint64 `json:"no_replicas"` // grants given back with NOREPLICAS

	keepalive.Stats
}

// ByMode is one number for each mode.
type ByMode struct {
	Write  uint64 `json:"write"`
	Read   uint64 `json:"read"`
	Permit uint64 `json:"permit"`
}

// Stats returns the counters as they are now.
func (l *Locker) Stats() Stats {
	c := &l.stats
	return Stats{
		Granted: byMode(&c.granted), Refused: byMode(&c.refused), Failed: byMode(&c.failed),
		Released: c.released.Load(), NotHeld: c.notHeld.Load(),
		Renewed: c.renewed.Load(), NotRenewed: c.notRenewed.Load(),
		Guarded: c.guarded.Load(), NotGuarded: c.notGuarded.Load(),
		Sets: c.sets.Load(), NoSets: c.noSets.Load(), FailedSets: c.failedSets.Load(),
		Waits: uint64(c.waits.Load()), TimedOut: uint64(c.timedOut.Load()), Waiting: int(c.waiting.Load()),
		Unsynced: c.unsynced.Load(), Stats: l.Renewer.Stats(),
	}
}

// Plus adds up two Stats.
func (s Stats) Plus(o Stats) Stats {
	return Stats{
		Granted:  s.Granted.plus(o.Granted),
		Refused:  s.Refused.plus(o.Refused),
		Failed:   s.Failed.plus(o.Failed),
		Released: s.Released + o.Released, NotHeld: s.NotHeld + o.NotHeld,
		Renewed: s.Renewed + o.Renewed, NotRenewed: s.NotRenewed + o.NotRenewed,
		Guarded: s.Guarded + o.Guarded, NotGuarded: s.NotGuarded + o.NotGuarded,
		Sets: s.Sets + o.Sets, NoSets: s.NoSets + o.NoSets, FailedSets: s.FailedSets + o.FailedSets,
		Waits: s.Waits + o.Waits, TimedOut: s.TimedOut + o.TimedOut, Waiting: s.Waiting + o.Waiting,
		Unsynced: s.Unsynced + o.Unsynced, Stats: s.Stats.Plus(o.Stats),
	}
}

func (n ByMode) plus(o ByMode) ByMode {
	return ByMode{n.Write + o.Write, n.Read + o.Read, n.Permit + o.Permit}
}

// All is the sum.
func (n ByMode) All() uint64 { return n.Write + n.Read + n.Permit }

func byMode(c *[3]atomic.Uint64) ByMode { return ByMode{c[0].Load(), c[1].Load(), c[2].Load()} }

// place is that of a mode in a counter.
func place(m redlock.Mode) int {
	switch m {
	case redlock.Read:
		return 1
	case redlock.Permit:
		return 2
	}
	return 0
}

// CountAcquire notes how a LOCK ended. Only its verb knows: it may have waited, or had to reach replicas.
func (l *Locker) CountAcquire(m redlock.Mode, granted bool, err error) {
	switch {
	case err == nil && granted: // which the Index is told of with more
		l.stats.granted[place(m)].Add(1)
		return
	case err != nil:
		l.stats.failed[place(m)].Add(1)
	default:
		l.stats.refused[place(m)].Add(1)
	}
	l.o.Index.Used()
}

// CountRelease notes how an UNLOCK ended.
func (l *Locker) CountRelease(r redlock.Released, err error) {
	l.o.Index.Used()
	switch {
	case err != nil:
	case r.Held:
		l.stats.released.Add(1)
	default:
		l.stats.notHeld.Add(1)
	}
}

// CountRenew notes how a RENEW ended.
func (l *Locker) CountRenew(r redlock.Renewed, err error) {
	l.o.Index.Used()
	switch {
	case err != nil:
	case r.Left > 0:
		l.stats.renewed.Add(1)
	default:
		l.stats.notRenewed.Add(1)
	}
}

// CountGuard notes the reply to a GUARD.
func (l *Locker) CountGuard(reply []byte) {
	l.o.Index.Used()
	switch {
	case bytes.HasPrefix(reply, []byte(redlock.NotHeld)):
		l.stats.notGuarded.Add(1)
	case !resp.IsError(reply):
		l.stats.guarded.Add(1)
	}
}

// CountSet notes how an MLOCK ended.
func (l *Locker) CountSet(granted bool, err error) {
	l.o.Index.Used()
	switch {
	case err != nil:
		l.stats.failedSets.Add(1)
	case granted:
		l.stats.sets.Add(1)
	default:
		l.stats.noSets.Add(1)
	}
}
