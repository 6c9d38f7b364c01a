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
	token    string
	mode     Verb
	fence    int64 // 0: not known
	least    int64 // the count is at least this
	most     int64 // and at most this
	lo, hi   time.Duration
	ghost    time.Duration // until then anything may be true of the token
	firm     bool          // it holds; else there is a ghost only
	kept     bool          // for as long as keeper lives; of a ghost: perhaps
	keeper   connection    // the one that asked for that last
	lent     bool          // somebody else has asked for it since it is kept
	asked    time.Duration // until then others who asked for it since, or may have, made it last
	fleeting bool          // its keeper has gone: it is about to be freed
}

// lock is the state of the model: what is known of the lock once some ops have happened.
type lock struct {
	now   time.Duration
	fence int64  // of the last grant
	holds []hold // by token
}

func (s lock) equal(t lock) bool {
	return s.now == t.now && s.fence == t.fence && slices.Equal(s.holds, t.holds)
}

// input is an op with what the judge has found out about it.
type input struct {
	Op
	queue bool          // somebody else may have stood in the queue
	freed bool          // of an UNLOCK with Null: it may have released the hold after all
	sure  time.Duration // of a grant that is kept alive: until then it must last
	loses []hold        // not nil: a fail-over after which only these ghosts remain
	after int64         // of a grant: the fence of the one before it
	until time.Duration // of an unknown outcome: when it can have no effect any more

	quorum bool            // of locks that a majority keeps
	late   time.Duration   // there: by how much some masters may have run it later than others
	astray map[string]bool // there: the exceptions that some masters may be the reason for
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
	Equal: func(a, b any) bool { return a.(lock).equal(b.(lock)) },
	DescribeOperation: func(in, _ any) string {
		i := in.(*input)
		if i.loses != nil {
			return "fail-over"
		}
		return i.String()
	},
	DescribeState: func(state any) string { return state.(lock).String() },
}

func (s lock) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "at %.4f fence %d", s.now.Seconds(), s.fence)
	for _, h := range s.holds {
		fmt.Fprintf(&b, " | %s %s", h.token, h.mode)
		if h.firm {
			fmt.Fprintf(&b, " fence %d count %d-%d until %.4f-%.4f", h.fence, h.least, h.most, h.lo.Seconds(),
				h.hi.Seconds())
		}
		if h.ghost > 0 {
			fmt.Fprintf(&b, " ghost until %.4f", h.ghost.Seconds())
		}
	}
	return b.String()
}

// find is the place of a token's hold; ok: it is there.
func (s *lock) find(token string) (int, bool) {
	return slices.BinarySearchFunc(s.holds, token,
		func(h hold, token string) int { return strings.Compare(h.token, token) })
}

// set puts a token's hold in its place.
func (s *lock) set(h hold) {
	if i, ok := s.find(h.token); ok {
		s.holds[i] = h
	} else {
		s.holds = slices.Insert(s.holds, i, h)
	}
}

// end ends the firm hold at i.
func (s *lock) end(i int) {
	if s.holds[i].ghost > s.now {
		h := s.holds[i]
		s.holds[i] = hold{token: h.token, mode: h.mode, ghost: h.ghost}
		return
	}
	s.holds = slices.Delete(s.holds, i, i+1)
}

// step says whether the op can be the next to happen, and makes it happen.
func (s *lock) step(o *input) bool {
	s.now = max(s.now, o.Call)
	s.holds = slices.DeleteFunc(s.holds, func(h hold) bool { return !h.firm && h.ghost < s.now })
	if o.loses != nil {
		s.holds = slices.Clone(o.loses)
		s.fence = max(s.fence, o.Fence)
		return true
	}
	switch {
	case o.isNote(), o.Outcome == Unknown:
		s.unsettle(o)
		return true
	case o.Outcome == Refused:
		return true
	case o.Outcome == Lost:
		return s.lost(o)
	case o.acquires() && o.Outcome == Granted:
		return s.granted(o)
	case o.acquires():
		return s.refused(o)
	case o.Outcome == Done:
		return s.holding(o)
	}
	return s.absent(o)
}

// unsettle makes room for what an op may do whose outcome nobody knows, at any
// time from now on.
func (s *lock) unsettle(o *input) {
	i, ok := s.find(o.Token)
	h := hold{token: o.Token, mode: o.Verb}
	if ok {
		h = s.holds[i]
	}
	if !o.isNote() {
		if h.kept {
			h.asked = max(h.asked, o.until)
		}
		if o.Keep { // its connection may have become the keeper, and gone
			h.lo = 0
		}
	}
	switch o.Verb {
	case Write, Read:
		if o.Verb == Read {
			h.mode = Read
		} else if o.Switch { // it may have a higher one by now
			h.fence = 0
		}
		h.ghost = max(h.ghost, o.until)
		h.hi = max(h.hi, o.until)
		h.most++
	case Renew:
		if !ok {
			return
		}
		h.hi = max(h.hi, o.until)
	case Drop:
		h.ghost, h.lo, h.least = max(h.ghost, o.until), 0, 1
		h.hi = max(h.hi, h.ghost)
		if o.Keep && h.kept && h.keeper == o.over() {
			h.kept, h.lent, h.fleeting = false, false, h.firm && !h.lent
		}
	case Unlock:
		if !ok || o.Only > 0 && h.fence > 0 && o.Only != h.fence {
			return
		}
		h.lo, h.least = 0, 1
	case Close:
		if !ok || !h.kept || h.keeper != o.over() {
			return
		}
		if !h.lent {
			h.lo, h.fleeting = 0, h.firm
		}
		h.hi, h.kept, h.lent = max(h.asked, o.until), false, false
	case Cut: // nobody renews it any more, and nobody frees it; the longest of its leases counts
		if !ok || !h.kept || h.keeper != o.over() {
			return
		}
		h.hi, h.kept, h.lent = forever, false, false
	}
	s.set(h)
}

// over is the connection that the op came over.
func (o *Op) over() connection { return connection{o.Client, o.Conn} }

// rely notes that o asked for the hold and was told that it is there until end, at most. sure: it
// is the one that was kept, if one was.
func (h *hold) rely(o *input, end time.Duration, sure bool) {
	switch {
	case o.Keep:
		h.kept, h.keeper, h.fleeting = true, o.over(), false
	case h.kept && h.keeper != o.over():
		h.lent = h.lent || sure
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

// alone makes all firm holds end that mode does not go with, but token's.
func (s *lock) alone(token string, mode Verb, by time.Duration) bool {
	for i := len(s.holds) - 1; i >= 0; i-- {
		h := s.holds[i]
		if h.firm && h.token != token && (mode == Write || h.mode == Write) && !s.gone(i, by) {
			return false
		}
	}
	return s.now <= by
}

// granted is LOCK or RLOCK with success.
func (s *lock) granted(o *input) bool {
	if o.TTL <= 0 || o.Count < 1 || o.Fence < 1 {
		return false
	}
	i, ok := s.find(o.Token)
	var had hold
	if ok {
		had = s.holds[i]
	}
	haunted := ok && had.ghost >= s.now
	again := ok && had.firm && (had.fence == 0 || had.fence == o.Fence) && s.now <= had.hi
	if ok && had.firm && o.astray[RaisedFence] && o.Fence > had.fence && s.now <= had.hi &&
		(o.Count > 1 || had.lo > o.Return) {
		again = true
	}
	switches := ok && had.firm && had.mode != o.Verb && s.now <= had.hi // a reader to a writer, or back
	h := hold{token: o.Token, mode: o.Verb, fence: o.Fence, least: o.Count, most: o.Count, firm: true,
		ghost: had.ghost}
	switch {
	case again || switches:
		least, most := had.least, had.most
		if o.Reentrant {
			least, most = least+1, most+1
		}
		if switches {
			least, most = 1, most+1
			if had.fence != o.Fence && (o.Fence <= s.fence || s.fence < o.after) {
				return false
			}
		}
		if haunted {
			least, most = least-1, most+1
		}
		if o.Count < least || o.Count > most && !o.astray[HigherCount] || o.TTL < o.shortest() {
			return false
		}
		h.kept, h.keeper, h.lent, h.asked, h.fleeting = had.kept, had.keeper, had.lent, had.asked, had.fleeting
	case haunted: // new, or the ghost's own
		h.kept, h.keeper, h.asked = had.kept, had.keeper, had.asked
	default:
		if ok && had.firm && !s.gone(i, o.Return) {
			return false
		}
		if o.Fence <= s.fence || s.fence < o.after || o.Count != 1 || o.TTL > o.longest() ||
			o.quorum && o.TTL < o.shortest() {
			return false
		}
	}
	if haunted {
		h.least, h.most = max(1, o.Count-1), o.Count+1
	}
	if !s.alone(o.Token, o.Verb, o.Return) {
		return false
	}
	h.lo, h.hi = s.now+o.TTL-tick, o.ends()
	if o.quorum && (again || switches) {
		h.hi = max(h.hi, had.hi)
	}
	if (again || switches) && had.lo > h.hi && !had.kept { // the lease was made shorter
		return false
	}
	h.rely(o, h.hi, again || switches)
	if h.kept { // the proxy gives it up by the promise: a ttl counts from the sending of the request
		h.lo = o.Call + o.TTL - tick
	}
	h.lo = max(h.lo, had.lo, o.sure)
	if had.fleeting && (again || switches) { // its keeper may have renewed it once more
		h.hi = max(h.hi, had.hi)
	}
	if haunted {
		h.hi = max(h.hi, had.ghost)
	}
	if h.kept {
		h.hi = forever
	}
	s.fence = max(s.fence, o.Fence)
	s.set(h)
	return true
}

// refused is LOCK or RLOCK with Null: others must hold the lock, or stand before it.
func (s *lock) refused(o *input) bool {
	if i, ok := s.find(o.Token); ok && s.holds[i].firm && s.holds[i].mode == o.Verb && !o.astray[Outvoted] &&
		!s.gone(i, o.Return) {
		return false
	}
	if s.now > o.Return {
		return false
	}
	if i, ok := s.find(o.Token); ok && o.Verb == Read && s.holds[i].mode == Write && o.astray[Outvoted] {
		s.holds[i].mode = Read // for some masters it reads from now on, and readers may come in
	}
	if o.queue {
		return true
	}
	return slices.ContainsFunc(s.holds, func(h hold) bool {
		if h.token == o.Token {
			return false
		}
		return h.ghost >= s.now || h.firm && h.hi >= s.now && (o.Verb == Write || h.mode == Write)
	})
}

// holding is UNLOCK, RENEW or CHECK that found the token's hold.
func (s *lock) holding(o *input) bool {
	i, ok := s.find(o.Token)
	if o.Verb == Unlock && o.Count == 1 && o.astray[ReleasedTwice] && s.now <= o.Return &&
		(!ok || !s.holds[i].firm || s.now > s.holds[i].hi) {
		return true
	}
	if !ok || s.now > o.Return {
		return false
	}
	h := s.holds[i]
	haunted := h.ghost >= s.now
	if !haunted && (!h.firm || s.now > h.hi) {
		return false
	}
	if !haunted {
		for _, fence := range []int64{o.Only, o.Fence} {
			if fence > 0 && h.fence > 0 && fence != h.fence {
				return false
			}
		}
	}
	if !s.alone(o.Token, h.mode, o.Return) {
		return false
	}
	i, _ = s.find(o.Token)
	slack := int64(0)
	if haunted {
		slack = 1000
	}
	switch o.Verb {
	case Unlock:
		if o.Count == 1 {
			if h.firm && !haunted && h.least > 1 {
				return false
			}
			s.end(i)
			return true
		}
		if o.Count != 0 || h.most+slack < 2 {
			return false
		}
		h.least, h.most = max(1, h.least-1), max(1, h.most-1)
	case Renew:
		if o.TTL < o.shortest() {
			return false
		}
		if !h.firm { // from now on it is one
			h.firm, h.fence, h.least, h.most, h.lo = true, 0, 1, 1000, 0
		}
		if !s.ends(&h, o) {
			return false
		}
		h.rely(o, o.Return+o.TTL+tick, !haunted)
		if h.kept {
			h.lo, h.hi = max(h.lo, o.sure), forever
		}
	case Check: // in its last millisecond a hold has a ttl of 0
		if o.TTL < 0 || o.Count < h.least-slack || o.Count > h.most+slack {
			return false
		}
		if h.firm && !haunted {
			h.least, h.most = o.Count, o.Count
			if !s.ends(&h, o) {
				return false
			}
		}
	}
	s.set(h)
	return true
}

// ends learns from a reported ttl when the lease of h ends. It must fit what is known,
// but for a lease that has just been made longer.
func (s *lock) ends(h *hold, o *input) bool {
	lo, hi := s.now+o.TTL-tick, o.Return+o.TTL+tick
	if h.kept { // its lease is made longer all the time
		if o.Verb == Renew {
			h.lo = max(h.lo, o.Call+o.TTL-tick)
		}
		return true
	}
	if h.fleeting && o.Verb == Check { // its lease does not matter any more
		return true
	}
	if o.quorum { // other masters may have been asked than before, which know of an earlier end
		h.lo, h.hi = max(h.lo, lo), max(h.hi, o.ends())
		return true
	}
	if h.lo > hi || o.Verb == Check && h.hi < lo-2*tick {
		return false
	}
	h.lo = max(h.lo, lo)
	switch {
	case h.fleeting: // its keeper may renew it once more
		h.hi = max(h.hi, hi)
	case o.Verb == Check:
		h.hi = min(h.hi, hi)
	default:
		h.hi = hi
	}
	if h.ghost > 0 {
		h.hi = max(h.hi, h.ghost)
	}
	return true
}

// lost is an op that was not run, and told instead that the hold of a fence is gone.
func (s *lock) lost(o *input) bool {
	i := slices.IndexFunc(s.holds, func(h hold) bool { return h.firm && o.Fence > 0 && h.fence == o.Fence })
	return s.now <= o.Return && (i < 0 || s.gone(i, o.Return))
}

// absent is UNLOCK, RENEW or CHECK that found nothing.
func (s *lock) absent(o *input) bool {
	i, ok := s.find(o.Token)
	if s.now > o.Return {
		return false
	}
	if !ok || !s.holds[i].firm {
		return true
	}
	if o.Only > 0 && o.Only != s.holds[i].fence { // it was asked for another grant's
		return true
	}
	if o.freed {
		s.end(i)
		return true
	}
	return s.gone(i, o.Return)
}
