package trace

import (
	"fmt"
	"slices"
	"time"
)

// Slacks are what the monitors of order and time allow. Faults and moments in which the
// machine stood still make them longer by as long as they last.
type Slacks struct {
	Standing time.Duration // until a LOCK..WAIT that was sent stands in the queue
	Wakeup   time.Duration // from the end of a hold to the next waiter's answer
	Late     time.Duration // an answer after its time-out
}

// Roomy are slacks for real processes on a busy machine: a reservation, a lost message
// and a slow poll of the scheduler together are no violation.
var Roomy = Slacks{Standing: 400 * time.Millisecond, Wakeup: 2 * time.Second, Late: time.Second}

// early is how much before its time a time-out may seem to be: milliseconds are rounded.
const early = 2 * time.Millisecond

// monitor judges what is plain to see in the ops of one key, without any search.
type monitor struct {
	h      *History
	key    string
	ops    []Op // by call
	grants []Op // that made a new hold, by fence
	v      *Verdict
}

func newMonitor(h *History, key string, ops []Op, v *Verdict) *monitor {
	m := &monitor{h: h, key: key, ops: ops, v: v}
	for _, o := range ops {
		if o.Outcome == Granted {
			m.grants = append(m.grants, o)
		}
	}
	slices.SortStableFunc(m.grants, func(a, b Op) int { return int(a.Fence - b.Fence) })
	// The same token again made no new hold.
	m.grants = slices.CompactFunc(m.grants, func(a, b Op) bool { return a.Fence == b.Fence })
	return m
}

func (m *monitor) violation(rule string, at time.Duration, format string, args ...any) {
	m.v.Violations = append(m.v.Violations, Violation{rule, m.key, fmt.Sprintf(format, args...), at})
}

// disturbed is for how long faults were felt between from and to.
func (m *monitor) disturbed(from, to time.Duration) time.Duration {
	var sum time.Duration
	for _, e := range m.h.Events {
		if a, b := max(from, e.Start), min(to, e.over()); b >= a {
			sum += b - a + time.Millisecond
		}
	}
	return sum
}

// messages: who is told of an outcome is told once, if no subscription had to move.
func (m *monitor) messages() {
	for _, o := range m.ops {
		if !o.stray() {
			continue
		}
		if slices.ContainsFunc(m.h.Events, func(e Event) bool { return e.Resent && e.Start < o.Return }) {
			m.v.Exceptions[ToldTwice]++
			continue
		}
		m.violation("one message", o.Return, "%s", o)
	}
}

// fences: a grant that was asked for after another had come has the higher fence, and no
// two tokens share one. This holds across fail-overs too. R31
func (m *monitor) fences() {
	first := map[int64]Op{}
	highest := Op{}
	byReturn := slices.Clone(m.grants)
	slices.SortStableFunc(byReturn, func(a, b Op) int { return int(a.Return - b.Return) })
	next := 0
	for _, o := range m.ops {
		if o.Outcome != Granted {
			continue
		}
		if f, ok := first[o.Fence]; ok && f.Token != o.Token {
			m.violation("fence", o.Call, "two grants share a fence: %v; %v", f, o)
		}
		if _, ok := first[o.Fence]; ok {
			continue
		}
		first[o.Fence] = o
		for ; next < len(byReturn) && byReturn[next].Return < o.Call; next++ {
			if byReturn[next].Fence > highest.Fence {
				highest = byReturn[next]
			}
		}
		if highest.Fence >= o.Fence && o.Count == 1 && !m.resent(o) {
			m.violation("fence", o.Call, "a later grant has no higher fence: %v; %v", highest, o)
		}
	}
}

// resent says whether a grant may be that of an earlier op of unknown outcome.
func (m *monitor) resent(o Op) bool {
	return slices.ContainsFunc(m.ops, func(u Op) bool {
		return u.Outcome == Unknown && u.acquires() && u.Token == o.Token && u.Call < o.Call
	})
}

// order: first come, first served. R25 R29
func (m *monitor) order() {
	for i, b := range m.grants {
		for _, a := range m.grants[i+1:] { // a got it after b
			switch {
			case a.Wait == 0 || b.Wait == 0 || a.Count > 1 || b.Count > 1 || a.Switch || b.Switch,
				a.Call+m.h.Slacks.Standing >= b.Call,
				len(a.Set) > 0,                   // it may have stood in the queue of another lock
				m.h.Quorum && a.Proxy != b.Proxy, // nobody knows of both
				// they entered together
				a.Verb != Write && a.Verb == b.Verb && a.Return <= b.Return+m.h.Slacks.Standing,
				// it may have lost its place
				m.disturbed(a.Call, a.Return) > 0 || m.resent(a) || m.resent(b),
				// it may have had the lock without being told, and then stood at the end again
				m.h.Moves && (a.outlived() || m.broke(a.Call, b.Return)):
			default:
				m.violation("first come first served", b.Call, "%v overtook %v", b, a)
				return
			}
		}
	}
}

// broke says that a BREAK may have ended a hold between from and to. While its lock moves, a grant is asked
// for once more before its client is told, and may have ended by then.
func (m *monitor) broke(from, to time.Duration) bool {
	return slices.ContainsFunc(m.ops, func(o Op) bool {
		breaks := o.Verb == Free || o.Break
		return breaks && o.Outcome != Null && o.Return >= from && o.Call <= to
	})
}

// span is a time in which somebody may hold the lock: from the moment from which the grant
// can have been made to the one at which it was over for certain.
type span struct {
	from, to time.Duration
	fence    int64 // 0: of an op of unknown outcome
	permits  int64 // of a permit, how many there are
}

func (m *monitor) spans() []span {
	var spans []span
	var free time.Duration // from then on the next one can have been granted
	for _, g := range m.grants {
		s := span{g.Call, m.end(g), g.Fence, g.Permits}
		switch {
		case g.Wait > 0 && g.Verb == Write:
			s.from = max(s.from, min(free, g.Return))
		case g.Wait > 0 && g.Verb == Permit: // it was told in time
			s.from = max(s.from, g.Return-m.h.Slacks.Late-m.disturbed(g.Call, g.Return))
		}
		spans = append(spans, s)
		free = max(free, s.to)
	}
	for _, o := range m.ops {
		if o.Outcome == Unknown && o.acquires() {
			spans = append(spans, span{from: o.Call, to: o.until(), permits: o.Permits})
		}
	}
	slices.SortFunc(spans, func(a, b span) int { return int(a.from - b.from) })
	return spans
}

// full are the times in which w may not have found a permit free, by the spans of the others.
func full(spans []span, w Op) (full []span) {
	if w.Permits <= 1 {
		return spans
	}
	var held []time.Duration // until when permits may be held, the latest last
	for _, s := range spans {
		if s.permits != w.Permits { // it is no semaphore meanwhile
			full = append(full, s)
			continue
		}
		i, _ := slices.BinarySearch(held, s.to)
		held = slices.Insert(held, i, s.to)
		if n := len(held) - int(w.Permits); n >= 0 && held[n] > s.from {
			full = append(full, span{from: s.from, to: held[n]})
		}
	}
	return full
}

// end is when a grant's hold is over for certain, and its rest.
func (m *monitor) end(g Op) time.Duration {
	end := g.Return + max(g.TTL, g.Lease) + tick
	rest := g.Return + g.AtLeast + tick
	kept, keeper := g.Keep, g.over()
	for _, o := range m.ops {
		if o.Token == g.Token && o.Call < g.Call && o.Keep && !o.isNote() && g.Switch && !g.Keep { // perhaps
			kept, keeper = true, o.over()
		}
	}
	last := func() time.Duration {
		if kept {
			return forever
		}
		return end
	}
	for _, o := range m.ops {
		mine := o.Token == g.Token && o.Call >= g.Call
		switch {
		case o.Client == g.Client && o.Outcome == Lost && o.Fence == g.Fence,
			mine && o.Outcome == Granted && o.Fence > g.Fence,
			mine && o.Verb == Unlock && o.Outcome == Done && o.Count == 1,
			mine && o.Outcome == Null && !o.acquires() && o.Only == 0 && o.Call > g.Return:
			return max(min(last(), o.Return), rest)
		case !mine:
		case o.Outcome == Granted, o.Verb == Renew && o.Outcome == Done:
			end, rest = max(end, o.Return+max(o.TTL, o.Lease)+tick), max(rest, o.Return+o.AtLeast+tick)
			if o.Keep {
				kept, keeper = true, o.over()
			}
		case o.Verb == Renew && o.Outcome == Unknown:
			end = max(end, o.until())
		case o.Keep && kept && keeper == o.over() && o.isNote():
			kept, end = false, max(end, o.letGo(m.h.Events))
		}
	}
	return last()
}

// wakeups: nobody waits for long for a lock that is free. R25
func (m *monitor) wakeups() {
	spans := m.spans()
	for _, w := range m.ops {
		if !w.acquires() || w.Wait == 0 || w.Outcome != Granted && w.Outcome != Null ||
			len(w.Set) > 0 { // it may wait for another lock
			continue
		}
		free := w.Call // the lock is free from then on, or w has not asked before
		idle := func(until time.Duration) bool {
			pause := until - free
			if pause <= m.h.Slacks.Wakeup || pause <= m.h.Slacks.Wakeup+m.disturbed(free, until) {
				return false
			}
			m.violation("lost wake-up", free, "the lock was free for %v while this one waited: %v", pause, w)
			return true
		}
		others := slices.DeleteFunc(slices.Clone(spans),
			func(s span) bool { return w.Outcome == Granted && s.fence == w.Fence })
		for _, s := range full(others, w) {
			if idle(min(s.from, w.Return)) {
				return
			}
			free = max(free, s.to)
		}
		if idle(w.Return) {
			return
		}
	}
}

// punctual: a wait ends neither before its time nor long after it, and everything is answered. R9 R11
func (m *monitor) punctual() {
	for _, o := range m.ops {
		if o.isNote() || o.Outcome == Refused || o.Outcome == Lost {
			continue
		}
		took, least, most := o.Return-o.Call, time.Duration(0), o.Wait+m.h.Slacks.Late
		if o.Tries > 0 {
			least = time.Duration(o.Tries-1) * o.Every / 2
			most += 3 * least
		}
		least += o.Wait
		disturbed := m.disturbed(o.Call, o.Return)
		switch {
		case m.h.Quorum && disturbed == 0 && m.disagreed(o):
			m.v.Exceptions[Disagreed]++
		case m.h.Moves && o.Overtaken():
			m.v.Exceptions[Overtaken]++
		case o.TooLate() && o.Lease < 2*stall, o.inVain(), o.stray():
		case o.Outcome == Unknown && disturbed == 0 && o.Err != errDropped.Error() && o.Err != errCut.Error():
			m.violation("answered", o.Call, "no answer, or trouble without a fault: %v", o)
		case o.Outcome != Unknown && took > most+disturbed:
			m.violation("on time", o.Call, "%v late: %v", took-most, o)
		case o.Outcome == Null && o.acquires() && took < least-early:
			m.violation("on time", o.Call, "%v early: %v", least-took, o)
		}
	}
}
