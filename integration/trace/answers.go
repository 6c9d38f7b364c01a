package trace

import (
	"slices"
	"strings"
	"time"
)

// This file is what the answers to the ops of one lock may be, by the state that the model is in.

// granted is LOCK, RLOCK or SEMLOCK with success.
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
	// Else it can be had only once it is free.
	same := ok && had.firm && had.permits == o.Permits && s.now <= had.hi
	raised := o.astray[RaisedFence] && o.Fence > had.fence && (o.Count > 1 || had.lo > o.Return)
	again := same && (had.fence == 0 || had.fence == o.Fence || raised)
	switches := same && had.mode != o.Verb // a reader to a writer, or back
	goesOn := again || switches
	h := hold{token: o.Token, ghost: had.ghost, permits: o.Permits}
	switch {
	case goesOn:
		least, most := had.least, had.most
		if o.Reentrant {
			least, most = least+1, most+1
		}
		if switches {
			least, most = 1, most+1
		}
		if haunted {
			least, most = least-1, most+1
		}
		if switches && had.fence != o.Fence && (o.Fence <= s.fence || s.fence < o.after) ||
			o.Count < least || o.Count > most && !o.astray[HigherCount] ||
			o.TTL < o.shortest()-(o.Return-o.Call)-tick { // it may count from when the client asked
			return false
		}
		h = had
	case haunted: // new, or the ghost's own
		h.kept, h.keeper, h.asked, h.restHi = had.kept, had.keeper, had.asked, had.restHi
	default:
		if ok && had.firm && !s.gone(i, o.Return) {
			return false
		}
		if o.Fence <= s.fence || s.fence < o.after || o.TTL > o.longest() ||
			o.Count != 1 && !o.astray[HigherCount] || o.quorum && o.TTL < o.shortest() {
			return false
		}
	}
	h.mode, h.fence, h.least, h.most, h.firm, h.split = o.Verb, o.Fence, o.Count, o.Count, true, false
	if haunted {
		h.least, h.most = max(1, o.Count-1), o.Count+1
	}
	if o.Break {
		s.breaks(o.Token, o.beside)
	}
	if !s.alone(o.Token, o.Verb, o.Permits, o.Return) {
		return false
	}
	h.rests(o, s.now)
	h.lo, h.hi = s.now+o.TTL-tick, o.ends()
	switch {
	case goesOn && o.quorum:
		h.hi = max(h.hi, had.hi)
	case goesOn: // the ttl may count from when the client asked
		h.hi = max(h.hi, min(had.hi, h.hi+o.Return-o.Call))
	}
	if goesOn && had.lo > h.hi && !had.kept && !had.lingers { // the lease was made shorter
		return false
	}
	h.rely(o, h.hi, goesOn)
	if h.kept { // the proxy gives it up by the promise: a ttl counts from the sending of the request
		h.lo = o.Call + o.TTL - tick
	}
	h.lo = max(h.lo, o.sure)
	if !o.Keep || had.kept && had.keeper == o.over() { // its proxy knows how long it lasts
		h.lo = max(h.lo, had.lo)
	}
	if had.fleeting && goesOn { // its keeper may have renewed it once more
		h.hi = max(h.hi, had.hi)
	}
	h.hi = max(h.hi, h.trail)
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

// rests notes how long the hold that o made keeps others out at least, which happened at now at the earliest.
// Each of independent masters counts from when it heard of it.
func (h *hold) rests(o *input, now time.Duration) {
	if o.AtLeast == 0 {
		return
	}
	lo, hi := now+o.AtLeast-tick, o.Return+o.AtLeast+o.moved+tick
	if o.quorum {
		lo, hi = o.Call+o.AtLeast-drift(o.AtLeast)-tick, hi+drift(o.AtLeast)+o.late
	}
	h.restLo, h.restHi = max(h.restLo, lo), max(h.restHi, hi)
}

// inUse is LOCK or SEMLOCK that is told that the key is in use in another way, or any other refusal.
func (s *lock) inUse(o *input) bool {
	word, _, _ := strings.Cut(o.Err, " ")
	if word != lockType && word != otherPermits {
		return true
	}
	return s.now <= o.Return && (o.other || slices.ContainsFunc(s.holds, func(h hold) bool {
		return h.there(s.now) && h.permits != o.Permits && (word == otherPermits) == (h.permits*o.Permits > 0)
	}))
}

// refused is LOCK, RLOCK or SEMLOCK with Null: others must hold the lock, or all permits, or stand before it.
func (s *lock) refused(o *input) bool {
	i, ok := s.find(o.Token)
	if ok && s.holds[i].firm && s.holds[i].mode == o.Verb {
		if !s.gone(i, o.Return) {
			return false
		}
		i, ok = s.find(o.Token)
	}
	if s.now > o.Return {
		return false
	}
	if ok && o.Verb == Read && s.holds[i].mode == Write && o.astray[RaisedFence] {
		s.holds[i].mode = Read // for some masters it reads from now on, and readers may come in
	}
	taken := int64(0)
	for _, h := range s.holds {
		if h.token != o.Token && h.permits == o.Permits && (h.ghost >= s.now ||
			h.firm && h.hi >= s.now && (o.Verb != Read || h.mode == Write)) {
			taken++
		}
	}
	// The token's own hold may have been freed, as its keeper has gone, and rest.
	return o.queue || taken >= max(o.Permits, 1) ||
		ok && s.holds[i].firm && s.holds[i].fleeting && s.holds[i].restHi > s.now && s.gone(i, o.Return)
}

// counts says whether a GUARD may have made n of the counter.
func (s *lock) counts(n int64) bool {
	more := n - s.counter - 1 // GUARDs that counted unseen
	switch {
	case s.counter < 0:
		more = 0
	case more < 0 || more > s.loose:
		return false
	}
	s.counter, s.loose = n, s.loose-more
	return true
}

// holding is UNLOCK, RENEW, CHECK or GUARD that found the token's hold.
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
	if !s.alone(o.Token, h.mode, h.permits, o.Return) {
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
			if h.firm && !haunted && h.least > 1 { // it is over, but for a master that missed something
				return o.astray[ReleasedTwice] && s.gone(i, o.Return)
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
		if o.Keep && (!h.kept || h.keeper != o.over()) { // its proxy knows no other ttl: the last one counts
			h.lo = 0
		}
		if !s.ends(&h, o) {
			return false
		}
		h.rely(o, o.Return+o.TTL+o.moved+tick, !haunted)
		if h.kept {
			h.lo, h.hi = max(h.lo, o.sure), forever
		}
	case Guard:
		return s.counts(o.Count)
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
	if h.kept || h.lingers { // its lease is made longer all the time
		if o.Verb == Renew {
			h.lo, h.hi = max(h.lo, o.Call+o.TTL-tick), max(h.hi, hi+o.moved)
		}
		return true
	}
	if h.fleeting && o.Verb == Check { // its lease does not matter any more
		return true
	}
	// Other masters may have been asked than before, which know of an earlier end. Of a set it is the least.
	if o.quorum || len(o.Set) > 0 {
		h.lo, h.hi = max(h.lo, lo), max(h.hi, o.ends())
		return true
	}
	if h.lo > hi || o.Verb == Check && h.hi < lo-2*tick {
		return false
	}
	h.lo = max(h.lo, lo)
	hi += o.moved
	switch {
	case h.fleeting: // its keeper may renew it once more
		h.hi = max(h.hi, hi)
	case o.Verb == Check:
		h.hi = min(h.hi, hi)
	default:
		h.hi = hi
	}
	h.hi = max(h.hi, h.ghost, h.trail)
	return true
}

// freed is LOCKCTL BREAK, which ends all holds and rests, or found none.
func (s *lock) freed(o *input) bool {
	switch o.Outcome {
	case Unknown:
		s.mayBreak(o.until)
		return true
	case Null:
		return s.allGone(o.Return, func(h hold) bool { return !o.beside[h.token] })
	}
	s.breaks("", o.beside)
	return s.now <= o.Return
}

// lost is LOCKLOST. The proxy is about to free what is left of that hold. If the connection of the keeper has
// closed, and others rely on the hold, only the keeper may have lost it.
func (s *lock) lost(o *input) bool {
	i := slices.IndexFunc(s.holds, func(h hold) bool { return h.firm && o.Fence > 0 && h.fence == o.Fence })
	if i < 0 || s.holds[i].lo > o.Return && s.holds[i].trail > 0 {
		return s.now <= o.Return
	}
	h := s.holds[i]
	if !h.kept {
		return s.gone(i, o.Return) && s.now <= o.Return
	}
	s.now = max(s.now, h.lo)
	h.lo, h.hi, h.kept, h.askedSince, h.fleeting = 0, max(h.asked, o.left), false, false, true
	s.set(h)
	return s.now <= o.Return
}

// absent is UNLOCK, RENEW, CHECK or GUARD that found nothing.
func (s *lock) absent(o *input) bool {
	i, ok := s.find(o.Token)
	if s.now > o.Return {
		return false
	}
	if !ok || !s.holds[i].firm {
		return true
	}
	h := s.holds[i]
	// The fence may be another grant's. Or some masters know the hold by a fence of their own, and an UNLOCK
	// of unknown outcome has reached others.
	raised := o.astray[RaisedFence] && (h.ghost >= s.now || h.split && o.Verb == Renew)
	if o.Only > 0 && (o.Only != h.fence || raised) {
		return true
	}
	return s.gone(i, o.Return)
}
