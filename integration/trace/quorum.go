package trace

import (
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

// Locks that independent masters keep, and a majority of them decides about, promise the same
// with these differences:
//
//   - A ttl is what is left for certain when the reply is made: less than the lease by the time
//     that it took and by the drift of clocks. So the hold may be there for longer than that. Asked again,
//     other masters may know of less.
//   - Null says that a majority was had and did not agree: others hold the lock, or ask for it at the
//     same time, or something of theirs is still being taken back.
//   - Who waits comes first only before those who wait behind the same proxy.
//   - A BREAK that gets Null, and a set in vain, may have ended or taken something on some masters, or on
//     all.
//   - Nothing is lost in a fail-over, since there is none, and nothing is sent twice.

// leftover is for how long some masters may have what others have taken back or never got,
// if nothing is wrong with them.
const leftover = 150 * time.Millisecond

// drift is how much of a lease the clocks of two machines may disagree about.
func drift(lease time.Duration) time.Duration { return lease/100 + 2*time.Millisecond }

// noQuorum says whether the answer was that too few masters could be had.
func (o *Op) noQuorum() bool { return strings.HasPrefix(o.Err, "NOQUORUM ") }

// shortest is the least ttl that may be reported of a lease that the op asked for.
func (o *input) shortest() time.Duration {
	if !o.quorum {
		return o.Lease
	}
	return o.Lease - drift(o.Lease) - (o.Return - o.Call) - tick
}

// longest is the highest ttl that may be reported of a new hold.
func (o *input) longest() time.Duration {
	if !o.quorum {
		return o.Lease
	}
	return o.Lease - drift(o.Lease) + time.Millisecond
}

// ends is when a hold that the op made or renewed can be there no longer by its lease. More may be left of
// that than was told, for the ttl may count from when somebody asked.
func (o *input) ends() time.Duration {
	if !o.quorum {
		return o.Return + max(o.TTL, o.Lease) + o.moved + tick
	}
	return o.Return + max(o.TTL+drift(o.TTL), o.Lease) + o.late + tick
}

// weigh tells the ops of a key what independent masters may make of them. It returns them with what BREAK
// does before it comes to its outcome: it ends holds at one master after the other, perhaps in several
// rounds, and others may come in between.
func (h *History) weigh(history []porcupine.Operation, ops []Op) []porcupine.Operation {
	var begun []porcupine.Operation
	for _, p := range history {
		o := p.Input.(*input)
		o.quorum, o.late = true, leftover
		if h.felt(o.Call, o.Return+leftover) {
			o.late = flight
		}
		if o.Outcome == Null && o.acquires() {
			o.queue = h.contested(&o.Op, ops)
		}
		o.crossed = crossed(&o.Op, ops)
		switch {
		case o.Break && o.Outcome == Null, o.Verb == Free && o.Outcome == Null && beside(&o.Op, ops):
			begun = append(begun, breaking(o.Op, o.Return+leftover))
		case o.Break && o.Outcome == Granted, o.Verb == Free && o.Outcome == Done:
			begun = append(begun, breaking(o.Op, o.Return))
		}
		if o.Break && o.Verb == Read { // a reader that came in behind it may have a lower fence
			o.beside = besides(ops, o.Op)
		}
	}
	return append(history, begun...)
}

// beside says whether somebody was granted the lock while o ran.
func beside(o *Op, ops []Op) bool {
	return slices.ContainsFunc(ops, func(w Op) bool {
		return w.acquires() && w.Outcome == Granted && w.meets(o)
	})
}

// The exceptions of locks that independent masters keep. All are on the safe side: nobody gets
// what another holds. They are tried in this order, each with those before it.
const (
	// RaisedFence: some masters missed a grant, or know it by a fence of their own; when its
	// token asks again, the hold that all agree on then has a higher fence than before. If a writer
	// becomes a reader in this way, some masters let readers in before it has its new fence, and also if it
	// is told that it has not become one.
	RaisedFence = "raised fence"
	// ReleasedTwice: a master that missed a release, or a BREAK, says 1 to the next one.
	ReleasedTwice = "released twice"
	// HigherCount: a master that missed an UNLOCK of several has a higher count, and the highest
	// is agreed on when the token asks again.
	HigherCount = "higher count"
	// Disagreed: readers who came together are told NOQUORUM since each raised the fence
	// that another had proposed; or a BREAK has ended the hold while its fence was agreed on.
	Disagreed = "disagreed"
)

var astray = []string{RaisedFence, ReleasedTwice, HigherCount}

// stray allows an exception in addition, and returns the history with it. All but RaisedFence need a fault
// that masters may have missed something in, or a BREAK that crossed the request of the same token.
func (h *History) stray(history []porcupine.Operation, exception string) []porcupine.Operation {
	for _, p := range history {
		o := p.Input.(*input)
		if o.astray == nil {
			o.astray = map[string]bool{}
		}
		o.astray[exception] = exception == RaisedFence || o.crossed || h.felt(o.Call-flight, o.Return)
	}
	if exception == RaisedFence {
		rechain(history)
		return append(history, downgrades(history)...)
	}
	return history
}

// downgrades are the first halves of grants that may have made a writer a reader: from then on some masters
// let other readers in.
func downgrades(history []porcupine.Operation) (begun []porcupine.Operation) {
	for _, p := range history {
		o := p.Input.(*input)
		if o.Verb == Read && o.Switch && o.Outcome == Granted {
			part := &input{Op: o.Op, quorum: true, queue: true, astray: map[string]bool{RaisedFence: true}}
			part.Outcome = Null
			begun = append(begun, porcupine.Operation{Input: part, Call: p.Call, Return: p.Return})
		}
	}
	return begun
}

// rechain is chain without tokens that have had several fences: a hold's new one may be older
// than the last grant.
func rechain(history []porcupine.Operation) {
	fences, several := map[string]int64{}, map[string]bool{}
	for _, p := range history {
		o := p.Input.(*input)
		if o.after = 0; o.Outcome != Granted {
			continue
		}
		several[o.Token] = several[o.Token] || fences[o.Token] > 0 && fences[o.Token] != o.Fence
		fences[o.Token] = o.Fence
	}
	chain(slices.DeleteFunc(slices.Clone(history),
		func(p porcupine.Operation) bool { return several[p.Input.(*input).Token] }))
}

// disagreed says whether o may be a reader that met another one, or may have met a BREAK.
func (m *monitor) disagreed(o Op) bool {
	return o.noQuorum() && strings.Contains(o.Err, "did not agree on a fence") &&
		slices.ContainsFunc(m.ops, func(w Op) bool {
			return (w.acquires() && w.Token != o.Token || w.Verb == Free) && w.meets(&o)
		})
}

// felt says whether a fault was between from and to.
func (h *History) felt(from, to time.Duration) bool { return felt(h.Events, from, to) }

func felt(events []Event, from, to time.Duration) bool {
	return slices.ContainsFunc(events, func(e Event) bool { return e.Start <= to && e.over() >= from })
}

// contested says whether some masters may have had something of another token while o ran.
func (h *History) contested(o *Op, ops []Op) bool {
	for _, w := range ops {
		if !w.acquires() || w.Token == o.Token || w.Call > o.Return {
			continue
		}
		end := w.Return + leftover
		if h.felt(w.Call, end) || h.felt(o.Call, o.Return) && crossed(&w, ops) {
			end = w.atLast()
		}
		if end >= o.Call {
			return true
		}
	}
	return false
}

// crossed says whether somebody's BREAK ran while the token of o asked for the lock. Where it came first, the
// hold is there, and where it came last, the hold is gone: a few masters may have it still when it is broken.
func crossed(o *Op, ops []Op) bool {
	return slices.ContainsFunc(ops, func(w Op) bool {
		return w.acquires() && w.Token == o.Token && w.Call <= o.Return && w.atLast() >= o.Call &&
			slices.ContainsFunc(ops, func(b Op) bool {
				end := b.Return
				if b.Outcome == Unknown {
					end = b.until()
				}
				return (b.Verb == Free || b.Break && b.Token != w.Token) &&
					b.Call <= w.Return+leftover && end+leftover >= w.Call
			})
	})
}

// barren: without a majority nothing is granted or done, and nobody is said to hold anything. R27
func (m *monitor) barren() {
	for _, e := range m.h.Events {
		if !e.Barren {
			continue
		}
		for _, o := range m.ops {
			if o.Call >= e.Start && o.Return <= e.End &&
				(o.Outcome == Granted || o.Outcome == Done || o.Outcome == Null) {
				m.violation("no majority", o.Call, "too many masters were away from %v to %v: %v",
					e.Start, e.End, o)
			}
		}
	}
}
