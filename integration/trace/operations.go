package trace

import (
	"cmp"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"
)

// This file makes of the ops of a key what porcupine asks the model: when each can have happened, and what it
// may have met.

// flight is how long a request may be on its way that nobody waits for any more: longer than
// any process is stopped and any request is sent again.
const flight = 8 * time.Second

// onTheWay is how long a lock may be on its way from one node to another. MIGRATE sends what is left of the
// time to live, so that a lease which has no other end lasts longer by as much.
const onTheWay = time.Second

// until is when an op of unknown outcome can have no effect any more.
func (o *Op) until() time.Duration {
	switch {
	case o.Verb == Close, o.Verb == Cut:
		return o.Return + o.Linger + o.Lease + time.Second
	case o.inVain() && o.Verb == Renew: // of what it has renewed
		return o.Return + o.Lease + tick
	case o.inVain(), o.leftNothing():
		return o.Return + tick
	}
	return o.atLast()
}

// atLast is when a call can have no effect any more, whatever became of what it asked for. A client that
// hears nothing closes its connection in the end; until then its hold may be kept alive.
func (o *Op) atLast() time.Duration {
	end := o.Call + o.Wait + time.Duration(o.Tries)*2*o.Every + flight
	if o.Keep && o.Outcome == Unknown {
		end = max(end, o.Return+time.Second)
	}
	return end + o.Linger + o.Lease
}

// letGo is until, of an op that may be a QUIT or RESET, which frees at once what was kept alive, if nothing
// hinders it.
func (o *Op) letGo(events []Event) time.Duration {
	if soon := o.Return + word; o.Err == errQuit.Error() && !felt(events, o.Call, soon) {
		return soon
	}
	return o.until()
}

// meets says whether o runs while w does.
func (o *Op) meets(w *Op) bool { return w.Call <= o.Return && w.Return >= o.Call }

// keptFor is the lease with which a token's hold was kept alive last.
func keptFor(ops []Op, token string) time.Duration {
	for _, o := range slices.Backward(ops) {
		if o.Keep && o.Token == token && !o.isNote() {
			return o.Lease
		}
	}
	return 0
}

// operations makes porcupine's history of the ops of a key. What overlaps a lossy event is left out, or may
// have run before it, and what was held before its end is a ghost afterwards.
func operations(ops []Op, moves bool, events, lossy []Event) []porcupine.Operation {
	var history []porcupine.Operation
	for n, o := range ops {
		until := o.letGo(events)
		over := func(e Event) bool { return felt([]Event{e}, o.Call, o.Return) }
		if i := slices.IndexFunc(lossy, over); i >= 0 {
			ran := o.Outcome == Done || o.Outcome == Granted || o.Outcome == Unknown
			if o.isNote() || !ran || o.Call >= lossy[i].Start {
				continue
			}
			o.Outcome, until = Unknown, lossy[i].Start
		}
		in := &input{Op: o, until: until}
		if moves {
			in.moved, in.beside = onTheWay, besides(ops, o)
		}
		if o.inVain() {
			in.until += in.moved
		}
		switch {
		case o.Verb == Look:
			in.found = o.found(ops)
		case o.isNote():
			in.sure = o.lingers(events)
			switch { // what lingers is kept on until that is over
			case o.Verb == Close:
				in.Call += o.Linger
			case o.Verb == Cut && o.Linger > 0:
				in.Call = o.Return + o.Linger
			}
			in.Return = in.Call
		case o.Outcome == Unknown:
			in.Return = in.Call
		case o.Outcome == Lost:
			if in.left = o.Return + keptFor(ops[:n], o.Token) + word; o.Wait == 0 {
				in.until = max(in.left, o.Return+o.Lease+word)
			}
		case o.Outcome == Refused:
			in.other = met(ops, n, func(w Op) bool {
				return (w.Wait > 0 || moves) && w.Permits != o.Permits
			})
		case moves && o.Outcome == Null && o.acquires() && o.outlived():
			in.Outcome, in.Return = Unknown, in.Call
		case o.Outcome == Null && o.acquires():
			in.queue = queued(ops, n) || moves && inSteps(ops, n)
		case o.Keep:
			in.sure = sure(ops[n:], events)
		}
		history = append(history,
			porcupine.Operation{
				ClientId: o.Client, Input: in, Call: int64(in.Call), Return: int64(in.Return),
			})
		if o.Verb == Free && o.Outcome != Unknown && (moves || felt(events, o.Call, o.Return)) {
			in.beside = sparedBy(ops, o)
		}
		if o.Verb == Read && len(in.beside) > 1 { // its BREAK comes first, then the others, then its fence
			history = append(history, breaking(o, o.Return))
		}
	}
	slices.SortStableFunc(history, func(a, b porcupine.Operation) int { return int(a.Call - b.Call) })
	chain(history)
	for _, e := range lossy {
		in := &input{Op: Op{Client: 0, Call: e.over(), Return: e.over()}, loses: []hold{}}
		ghosts := lock{}
		for _, o := range ops {
			if o.Call > e.over() || o.Verb == Free {
				continue
			}
			h := hold{token: o.Token, mode: Read}
			if i, ok := ghosts.find(o.Token); ok {
				h = ghosts.holds[i]
			}
			if o.acquires() {
				h.mode, h.permits = o.Verb, o.Permits
			}
			switch done := o.Outcome == Granted || o.Verb == Renew && o.Outcome == Done; {
			case o.Keep && o.isNote():
				if h.kept && h.keeper == o.over() {
					h.kept, h.asked = false, max(h.asked, o.until())
				}
			case o.Outcome == Unknown: // it may have been given back in vain
				h.asked = max(h.asked, o.atLast())
			case done && o.Keep:
				h.kept, h.keeper = true, o.over()
			case done:
				h.asked = max(h.asked, o.Return+max(o.TTL, o.AtLeast)+tick)
			}
			if o.Outcome == Granted && o.Return < e.Start {
				in.Fence = max(in.Fence, o.Fence)
			}
			if h.ghost = h.asked; h.kept {
				h.ghost = forever
			}
			h.hi = h.ghost
			if h.ghost > 0 {
				ghosts.set(h)
			}
		}
		ghosts.holds = slices.DeleteFunc(ghosts.holds, func(h hold) bool { return h.ghost < e.Start })
		in.loses = append(in.loses, ghosts.holds...)
		history = append(history, porcupine.Operation{
			Input: in, Call: int64(in.Call), Return: int64(in.Return),
		})
	}
	return history
}

// chain tells each grant which one is before it by their fences: grants that may come in any
// order by their times cannot by these, and porcupine need not try. Tokens that an
// op of unknown outcome asked for are left out.
func chain(history []porcupine.Operation) {
	haunted := map[string]bool{}
	for _, o := range history {
		if in := o.Input.(*input); in.Outcome == Unknown {
			haunted[in.Token] = true
		}
	}
	var grants []*input
	for _, o := range history {
		if in := o.Input.(*input); in.Outcome == Granted && !haunted[in.Token] {
			grants = append(grants, in)
		}
	}
	slices.SortFunc(grants, func(a, b *input) int { return cmp.Compare(a.Fence, b.Fence) })
	for i, last := 1, int64(0); i < len(grants); i++ {
		if grants[i].Fence != grants[i-1].Fence {
			last = grants[i-1].Fence
		}
		grants[i].after = last
	}
}

// word is how long it may take until the loss of a hold is told.
const word = 500 * time.Millisecond

// sure is until when the hold of ops[0], which is kept alive, must last by what its client
// was answered later: it must never be gone without a word. But a hold that nobody could renew in time
// may end while the client asks, or just before, when its proxy does not know that for certain.
func sure(ops []Op, events []Event) (until time.Duration) {
	g := ops[0]
	fence := g.Fence
	if g.Verb == Renew {
		fence = g.Only
	}
	keeper := g.over()
	for _, o := range ops[1:] {
		mine := o.Token == g.Token
		if mine && o.Keep && (o.Outcome == Granted || o.Outcome == Done) {
			keeper = o.over()
		}
		switch {
		case o.Client != g.Client, (o.Verb == Close || o.Verb == Cut) && o.over() != keeper:
		case mine && o.isNote() && o.over() == keeper:
			for _, e := range events {
				if !e.Clean && e.Start <= o.Call && e.over() >= max(until, g.Call) {
					return until // it may have ended before, and its client has not asked since
				}
			}
			return max(until, o.lingers(events))
		case o.Outcome == Lost, o.Outcome == Unknown:
			return until
		case !mine || o.Outcome == Refused || o.Only > 0 && o.Only != fence:
		case o.Outcome == Null && o.Verb == Guard: // whose NOTHELD does not say why: other verbs do
		case o.Outcome == Null && !o.acquires():
			// Its grant may have been on the way, and the hold over, when the machine stood still.
			known := max(until, g.Call, o.Call-word-g.Lease)
			// that long the machine may stand still unnoticed
			hindered := stall + o.Return - max(o.Call, known)
			for _, e := range events {
				hindered += max(0, min(e.End, o.Call)-max(e.Start, known))
			}
			if hindered < g.Lease*2/3 {
				return forever
			}
			last := o.Call - word
			for _, e := range events { // while nobody could renew it, it may have ended at any time
				if e.Start < last && e.End > last {
					last = e.Start
				}
			}
			return max(until, last)
		case o.Outcome == Granted && o.Fence != fence && fence > 0 && !o.Switch:
			return until
		case o.Outcome == Done || o.Outcome == Granted:
			until = o.Call
			if o.Verb == Unlock && o.Count == 1 {
				return until
			}
		}
	}
	return until
}

// inSteps says whether somebody else may have held the lock without a fence while ops[n] ran: a lock that
// moves is taken first, and gets its fence then.
func inSteps(ops []Op, n int) bool {
	return slices.ContainsFunc(ops, func(o Op) bool {
		return o.acquires() && o.Outcome == Granted && o.Token != ops[n].Token && o.meets(&ops[n])
	})
}

// tokens are those of the ops that are meant.
func tokens(ops []Op, meant func(w *Op) bool) map[string]bool {
	all := map[string]bool{}
	for _, w := range ops {
		if meant(&w) {
			all[w.Token] = true
		}
	}
	return all
}

// sparedBy are the tokens that may hold the lock although LOCKCTL BREAK ended what others held: one that
// takes long, or is sent again, leaves alone what its own proxy has asked for since. What was called shortly
// before it may have come behind it, over another connection.
func sparedBy(ops []Op, o Op) map[string]bool {
	return tokens(ops, func(w *Op) bool {
		return w.acquires() && w.Proxy == o.Proxy && w.Call+stall >= o.Call && w.meets(&o)
	})
}

// breaking is what a BREAK does before it comes to its outcome: what others hold may end at any time until
// then.
func breaking(o Op, until time.Duration) porcupine.Operation {
	in := &input{Op: Op{Verb: Free, Call: o.Call, Return: o.Call, Outcome: Unknown}, until: until}
	return porcupine.Operation{Input: in, Call: int64(o.Call), Return: int64(o.Call)}
}

// besides are the tokens of readers that may have come in while o ran, and its own, if that is a reader with
// BREAK.
func besides(ops []Op, o Op) map[string]bool {
	return tokens(ops, func(r *Op) bool {
		return o.Break && o.Verb == Read && r.Verb == Read && r.Outcome == Granted && r.meets(&o)
	})
}

// queued says whether somebody may have stood in the queue while ops[n] ran.
func queued(ops []Op, n int) bool {
	return met(ops, n, func(w Op) bool { return w.Wait > 0 && w.Permits == ops[n].Permits })
}

// met says whether one of the others that asked for the lock, and is meant, may have done so while ops[n]
// ran.
func met(ops []Op, n int, meant func(w Op) bool) bool {
	for i, w := range ops {
		if w.Outcome == Unknown {
			w.Return = w.until()
		}
		if i != n && w.acquires() && meant(w) && w.meets(&ops[n]) {
			return true
		}
	}
	return false
}

// lingers is until when a hold must go on whose connection ended as the note o says: while nothing hinders
// whoever renews it. 0: it need not.
func (o *Op) lingers(events []Event) time.Duration {
	if o.Linger == 0 || o.Verb == Drop && o.Err != errDropped.Error() { // what ended it, nobody knows
		return 0
	}
	until := o.Call + o.Linger - tick
	for _, e := range events {
		switch {
		case e.Clean || e.over() < o.Call-o.Lease || e.Start > until:
		case e.Start <= o.Call:
			return 0
		default:
			until = e.Start
		}
	}
	return until
}
