package trace

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

// The model of one lock, for porcupine.
//
// A lock's leases end by the clock of its server, so the end of a hold is no call
// that could be put in order. Instead each state knows the earliest moment, now, at
// which all that was put in order so far can have happened: an op happens between its
// call and its return, and not before the ops that stand before it. Each hold knows two
// moments between which its lease ends: lo, counted from the earliest moment at which the op
// that made or renewed it can have happened, hi, counted from its return.
//
//   - An op that needs a hold to be gone happens at lo or later: now rises to lo,
//     and that must not be after the op's return.
//   - An op that needs a hold to be there happens at hi or earlier: now must not be after hi.
//
// Both are necessary for locks that keep their promise, whatever the real times were, and
// both are wrong, on a client's own clock, as soon as somebody gets a lock
// inside of a ttl that was reported to another.
//
// What no answer came to is a ghost: its token may or may not hold the lock at any time
// until that is over for certain. A ghost forbids nothing to anybody, and explains why
// others are refused.

// tick is what rounding to milliseconds and the difference between the monotonic clock of
// the clients and the server's may amount to in one round.
const tick = 5 * time.Millisecond

const forever = time.Hour * 24 * 365

// A hold that is kept alive ends with the connection that keeps it, unless that is told otherwise
// in time: whoever asks for it over another connection relies on it, and the close of the
// first one takes it from nobody then. It only ends the renewals.

// connection is one of a client's.
type connection struct{ client, number int }

// hold is one token's hold.
type hold struct {
	token      string
	mode       Verb
	fence      int64 // 0: not known
	least      int64 // the count is at least this
	most       int64 // and at most this
	lo, hi     time.Duration
	ghost      time.Duration // until then anything may be true of the token
	firm       bool          // it holds; else there is a ghost only
	kept       bool          // for as long as keeper lives; of a ghost: perhaps
	keeper     connection    // the one that asked for that last
	askedSince bool          // somebody else has asked for it since it is kept
	asked      time.Duration // until then others who asked for it since, or may have, made it last
	fleeting   bool          // its keeper has gone: it is about to be freed
	trail      time.Duration // its last keeper may have renewed it until then, as it noticed its end late
	lingers    bool          // perhaps still renewed, though its keeper has gone
	split      bool          // an UNLOCK of unknown outcome has perhaps freed it at some masters

	permits int64 // of a semaphore: how many it has. 0: of a lock
	// Once it is released, the name, or one permit, stays taken until a time between these, if they are not
	// over (ATLEAST).
	restLo, restHi time.Duration
}

// there says whether somebody may have the hold at now.
func (h *hold) there(now time.Duration) bool { return h.ghost >= now || h.firm && h.hi >= now }

// besides says whether somebody else may have the lock in that mode beside the hold, and of a semaphore,
// whether it has as many permits.
func (h *hold) besides(mode Verb, permits int64) bool {
	return h.mode == mode && h.permits == permits && mode != Write
}

// lock is the state of the model: what is known of the lock once some ops have happened.
type lock struct {
	now   time.Duration
	fence int64  // of the last grant
	holds []hold // by token

	broken time.Duration // until then a BREAK of unknown outcome may end all of them

	counter int64 // what the last GUARD made of it; -1: not known
	loose   int64 // GUARDs of unknown outcome, which may count later
}

// covers says whether whatever may follow on t may follow on s too: it is the same but that it may have been
// earlier, and that its holds may end earlier.
func (s lock) covers(t lock) bool {
	return s.now <= t.now && s.fence == t.fence && s.broken == t.broken && s.counter == t.counter &&
		s.loose == t.loose && slices.EqualFunc(s.holds, t.holds, hold.covers)
}

func (h hold) covers(o hold) bool {
	if h.lo > o.lo || h.restLo > o.restLo {
		return false
	}
	h.lo, h.restLo = o.lo, o.restLo
	return h == o
}

// input is an op with what the judge has found out about it.
type input struct {
	Op
	queue bool           // somebody else may have stood in the queue
	other bool           // somebody may have stood in it who wanted the key as something else
	sure  time.Duration  // of a grant that is kept alive, and the end of its keeper: until then it must last
	loses []hold         // not nil: a fail-over after which only these ghosts remain
	after int64          // of a grant: the fence of the one before it
	found map[string]*Op // of LOCKCTL INFO: those that it tells of, by token
	until time.Duration  // of an unknown outcome: when it can have no effect any more
	left  time.Duration  // of LOCKLOST: until then the proxy may not have freed what is left of the hold
	moved time.Duration  // of locks that move: how much longer its lease may last
	// of a reader with BREAK of a lock that moves: tokens of readers that may have come in behind it, and yet
	// got their fences before it. Of LOCKCTL BREAK: tokens whose holds it may have left alone
	beside map[string]bool

	quorum  bool            // of locks that a majority keeps
	late    time.Duration   // there: by how much some masters may have run it later than others
	crossed bool            // there: a BREAK may have met its token's hold at some masters only
	astray  map[string]bool // there: the exceptions that some masters may be the reason for
}

// model judges the ops of one key.
var model = porcupine.Model{
	Init: func() any { return lock{} },
	Step: func(state, in, _ any) (bool, any) {
		s := state.(lock)
		s.holds = slices.Clone(s.holds)
		i := in.(*input)
		ok := s.step(i)
		return ok, s
	},
	Equal: func(a, b any) bool { return a.(lock).covers(b.(lock)) && b.(lock).covers(a.(lock)) },
}

// quick is model, but that it does not go on from a state that an earlier one covers. Who finds no order by
// it asks model itself.
var quick = func() porcupine.Model {
	m := model
	m.Equal = func(a, b any) bool { return b.(lock).covers(a.(lock)) }
	return m
}()

// find is the place of a token's hold; ok: it is there.
func (s *lock) find(token string) (int, bool) {
	return slices.BinarySearchFunc(s.holds, token,
		func(h hold, token string) int { return strings.Compare(h.token, token) })
}

// set puts a token's hold in its place.
func (s *lock) set(h hold) {
	if s.broken > s.now {
		h.lo, h.restLo = 0, 0
	}
	if i, ok := s.find(h.token); ok {
		s.holds[i] = h
	} else {
		s.holds = slices.Insert(s.holds, i, h)
	}
}

// end ends the firm hold at i, which may rest then.
func (s *lock) end(i int) {
	h := s.holds[i]
	if h.ghost > s.now {
		s.holds[i] = hold{token: h.token, mode: h.mode, ghost: h.ghost, permits: h.permits}
	} else {
		s.holds = slices.Delete(s.holds, i, i+1)
	}
	if h.restHi > s.now { // nobody's, so nobody can renew or free it
		s.set(hold{token: fmt.Sprintf("the rest of %s %d", h.token, h.fence), mode: h.mode, firm: true,
			lo: h.restLo, hi: h.restHi, permits: h.permits})
	}
}

// breaks ends all firm holds but token's, and what would rest of them. Those beside may have ended.
func (s *lock) breaks(token string, beside map[string]bool) {
	for i := len(s.holds) - 1; i >= 0; i-- {
		switch h := &s.holds[i]; {
		case !h.firm || h.token == token:
		case beside[h.token]:
			h.lo, h.restLo = 0, 0
		default:
			h.restHi = 0
			s.end(i)
		}
	}
}

// mayBreak has all holds end, until then, at any time.
func (s *lock) mayBreak(until time.Duration) {
	s.broken = max(s.broken, until)
	for i := range s.holds {
		s.holds[i].lo, s.holds[i].restLo = 0, 0
	}
}

// step says whether the op can be the next to happen, and makes it happen.
func (s *lock) step(o *input) bool {
	s.now = max(s.now, o.Call)
	s.holds = slices.DeleteFunc(s.holds, func(h hold) bool { return !h.firm && h.ghost < s.now })
	if o.loses != nil {
		s.holds = slices.Clone(o.loses)
		s.fence, s.counter = max(s.fence, o.Fence), -1
		return true
	}
	switch {
	case o.Verb == Free:
		return s.freed(o)
	case o.Verb == Guard && o.Outcome == Unknown:
		s.loose++
		return true
	case o.Verb == Look:
		return o.Outcome == Unknown || s.seen(o)
	case o.isNote(), o.Outcome == Unknown:
		s.unsettle(o)
		return true
	case o.Outcome == Refused:
		return s.inUse(o)
	case o.Outcome == Lost:
		if !s.lost(o) {
			return false
		}
		if o.acquires() && (o.Wait > 0 || strings.Contains(o.Err, ", then lock again")) { // it is taken back
			s.unsettle(o)
		}
		return true
	case o.acquires() && o.Outcome == Granted:
		return s.granted(o)
	case o.acquires():
		return s.refused(o)
	case o.Outcome == Done:
		return s.holding(o)
	}
	return s.absent(o)
}

// over is the connection that the op came over.
func (o *Op) over() connection { return connection{o.Client, o.Conn} }

// rely notes that o asked for the hold and was told that it is there until end, at most. sure: it
// is the one that was kept, if one was.
func (h *hold) rely(o *input, end time.Duration, sure bool) {
	switch {
	case o.Keep:
		h.kept, h.keeper, h.fleeting, h.lingers = true, o.over(), false, false
	case h.kept && h.keeper != o.over():
		h.askedSince = h.askedSince || sure
		h.asked = max(h.asked, end)
	case h.fleeting: // its keeper lets go of it, sooner or later, as far as the next one can know
		h.asked, h.fleeting = max(h.asked, end), false
	}
	if h.asked > 0 {
		h.asked = max(h.asked, end)
	}
}

// gone makes the firm hold at i end by its lease, if that is possible before by.
func (s *lock) gone(i int, by time.Duration) bool {
	if s.holds[i].lo > by {
		return false
	}
	s.now = max(s.now, s.holds[i].lo)
	s.end(i)
	return true
}

// allGone makes the firm holds end that are meant, if that is possible before by.
func (s *lock) allGone(by time.Duration, meant func(h hold) bool) bool {
	for {
		i := slices.IndexFunc(s.holds, func(h hold) bool { return h.firm && meant(h) })
		if i < 0 {
			return s.now <= by
		}
		if !s.gone(i, by) {
			return false
		}
	}
}

// alone makes all firm holds end that mode does not go with, but token's; and so many permits that one is
// free.
func (s *lock) alone(token string, mode Verb, permits int64, by time.Duration) bool {
	others := func(h hold) bool { return h.token != token && !h.besides(mode, permits) }
	return s.allGone(by, others) && s.room(token, permits, by)
}

// room makes so many permits end that one of them is free for token, if that is possible before by. If it
// cannot be known which, they stay, and may turn out to be there later.
func (s *lock) room(token string, permits int64, by time.Duration) bool {
	if permits == 0 {
		return true
	}
	others := func(h hold) bool { return h.firm && h.token != token }
	var ends []time.Duration // of the others' permits, at least
	longer := int64(0)       // how many go on beyond by
	for _, h := range s.holds {
		if others(h) {
			ends = append(ends, h.lo)
		}
		if others(h) && h.lo > by {
			longer++
		}
	}
	slices.Sort(ends)
	if over := len(ends) - int(permits); over >= 0 {
		s.now = max(s.now, ends[over])
	}
	for longer == permits-1 { // all the rest must have ended
		i := slices.IndexFunc(s.holds, func(h hold) bool { return others(h) && h.lo <= by })
		if i < 0 {
			break
		}
		s.gone(i, by)
	}
	return s.now <= by
}
