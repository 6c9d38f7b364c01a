package locks

import (
	"bytes"
	"slices"
	"strings"
	"sync/atomic"

	"lockproxy/internal/resp"
	"lockproxy/redlock"
	"lockproxy/redlock/keepalive"
)

// Tally is something that a Locker counts.
type Tally int

// Those up to Waiters say how many there are now, the others how often something has happened.
const (
	Kept      Tally = iota // holds that are kept alive
	Lingering              // those of them whose connections broke
	Waiters                // LOCKs that wait

	// LOCK, WLOCK, RLOCK and SEMLOCK: granted, held by others, failed. By mode, in the order of Modes.
	GrantedWrite
	GrantedRead
	GrantedPermit
	RefusedWrite
	RefusedRead
	RefusedPermit
	FailedWrite
	FailedRead
	FailedPermit

	Released // UNLOCK: released or counted down
	NotHeld  // UNLOCK: held nothing
	Renewed
	NotRenewed
	Guarded    // GUARD: run without an error; not those in MULTI
	NotGuarded // GUARD: held nothing

	// MLOCK: granted, one was held by others, failed.
	SetsGranted
	SetsRefused
	SetsFailed

	Waits      // LOCKs that had to wait
	TimedOut   // those whose wait was in vain
	NoReplicas // grants given back with NOREPLICAS
	Renewals   // of holds that are kept alive

	// Losses of such holds, by keepalive.Loss.
	LostBroken
	LostExpired
	LostGone
	LostMax
	LostTogether

	mostCounters
)

// Counters says how each counter is shown: LOCKCTL STATS, STATS ALL, the questions of proxies to each other
// and the metrics go through it.
var Counters = [mostCounters]struct {
	Name    string // in LOCKCTL STATS; behind a point, in a map
	Outcome string // verb and outcome in lock_outcomes_total; LOCK and WLOCK are one verb there
}{
	Kept:          {Name: "holds"},
	Lingering:     {Name: "lingering"},
	Waiters:       {Name: "waiters"},
	GrantedWrite:  {"granted.write", "lock granted"},
	GrantedRead:   {"granted.read", "rlock granted"},
	GrantedPermit: {"granted.permit", "semlock granted"},
	RefusedWrite:  {"refused.write", "lock refused"},
	RefusedRead:   {"refused.read", "rlock refused"},
	RefusedPermit: {"refused.permit", "semlock refused"},
	FailedWrite:   {"failed.write", "lock failed"},
	FailedRead:    {"failed.read", "rlock failed"},
	FailedPermit:  {"failed.permit", "semlock failed"},
	Released:      {"released", "unlock released"},
	NotHeld:       {"not_held", "unlock not_held"},
	Renewed:       {"renewed", "renew renewed"},
	NotRenewed:    {"not_renewed", "renew not_held"},
	Guarded:       {"guarded", "guard run"},
	NotGuarded:    {"not_guarded", "guard not_held"},
	SetsGranted:   {"sets_granted", "mlock granted"},
	SetsRefused:   {"sets_refused", "mlock refused"},
	SetsFailed:    {"sets_failed", "mlock failed"},
	Waits:         {Name: "waits"},
	TimedOut:      {Name: "timed_out"},
	NoReplicas:    {Name: "no_replicas"},
	Renewals:      {Name: "renewals"},
	LostBroken:    {Name: lost + string(keepalive.Broken)},
	LostExpired:   {Name: lost + string(keepalive.Expired)},
	LostGone:      {Name: lost + string(keepalive.Gone)},
	LostMax:       {Name: lost + string(keepalive.Max)},
	LostTogether:  {Name: lost + string(keepalive.Together)},
}

const lost = "lost."

// Loss is the reason that c counts; ok is false if it counts no losses.
func (c Tally) Loss() (why string, ok bool) { return strings.CutPrefix(Counters[c].Name, lost) }

// counters count what a Locker does.
type counters [mostCounters]atomic.Uint64

// countOne counts one more. Safe for concurrent use.
func (c *counters) countOne(what Tally) { c[what].Add(1) }

// Stats is what a Locker has done since it was made, by Tally.
type Stats [mostCounters]uint64

// Stats returns the counters as they are now.
func (l *Locker) Stats() (s Stats) {
	for c := range s {
		s[c] = l.stats[c].Load()
	}
	k := l.Renewer.Stats()
	s[Kept], s[Lingering], s[Renewals] = uint64(k.Kept), uint64(k.Lingering), k.Renewals
	for c := LostBroken; c < mostCounters; c++ {
		why, _ := c.Loss()
		s[c] = k.Lost[keepalive.Loss(why)]
	}
	return s
}

// Plus adds up two Stats.
func (s Stats) Plus(o Stats) Stats {
	for c := range s {
		s[c] += o[c]
	}
	return s
}

// Since is s less what had happened before. What is counted of now stays.
func (s Stats) Since(before Stats) Stats {
	for c := Waiters + 1; c < mostCounters; c++ {
		s[c] -= before[c]
	}
	return s
}

// Granted, Refused and Lost are the sums of all modes, or reasons.
func (s Stats) Granted() uint64 { return s.sumOf(GrantedWrite, RefusedWrite) }
func (s Stats) Refused() uint64 { return s.sumOf(RefusedWrite, FailedWrite) }
func (s Stats) Lost() uint64    { return s.sumOf(LostBroken, mostCounters) }

// sumOf is that of the counters before end.
func (s Stats) sumOf(first, end Tally) (n uint64) {
	for _, one := range s[first:end] {
		n += one
	}
	return n
}

// Modes are those that are counted apart, as the verbs LOCK, RLOCK and SEMLOCK.
var Modes = [...]redlock.Mode{redlock.Write, redlock.Read, redlock.Permit}

// Place is that of a mode among Modes. One that is none counts as a writer.
func Place(m redlock.Mode) int { return max(slices.Index(Modes[:], m), 0) }

// CountOutcome notes how a verb ended: yes, no, or with an error. A verb without failed does not count its
// errors.
func (l *Locker) CountOutcome(is bool, err error, yes, no Tally, failed ...Tally) {
	l.Used()
	switch {
	case err == nil && is:
		l.stats.countOne(yes)
	case err == nil:
		l.stats.countOne(no)
	case failed != nil:
		l.stats.countOne(failed[0])
	}
}

// CountAcquire notes how a LOCK ended. Only its verb knows: it may have waited, or had to reach replicas.
func (l *Locker) CountAcquire(m redlock.Mode, granted bool, err error) {
	at := Tally(Place(m))
	l.CountOutcome(granted, err, GrantedWrite+at, RefusedWrite+at, FailedWrite+at)
}

// CountGuard notes the reply to a GUARD.
func (l *Locker) CountGuard(reply []byte) {
	held := !bytes.HasPrefix(reply, []byte(redlock.NotHeld))
	var err error
	if held && resp.IsError(reply) {
		err = redlock.ReplyError(reply)
	}
	l.CountOutcome(held, err, Guarded, NotGuarded)
}
