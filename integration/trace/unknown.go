package trace

// unsettle makes room for what an op may do whose outcome nobody knows, at any
// time from now on.
func (s *lock) unsettle(o *input) {
	i, ok := s.find(o.Token)
	h := hold{token: o.Token, mode: o.Verb, permits: o.Permits}
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
	if o.Break {
		s.mayBreak(o.until)
	}
	switch o.Verb {
	case Write, Read, Permit:
		if h.mode == Drop { // nothing was known of it but that its connection has ended
			h.mode, h.permits = o.Verb, o.Permits
		}
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
			h.lo, h.lingers = o.sure, o.Linger > 0
			h.kept, h.askedSince, h.fleeting = false, false, h.firm && !h.askedSince
		}
	case Unlock:
		if !ok || o.Only > 0 && h.fence > 0 && o.Only != h.fence {
			return
		}
		h.lo, h.least, h.split = 0, 1, true
	case Close, Cut:
		if !ok || !h.kept || h.keeper != o.over() {
			return
		}
		if o.Verb == Cut { // nobody renews it any more, and nobody frees it; the longest of its leases counts
			h.hi = forever
		} else {
			if !h.askedSince {
				h.lo, h.fleeting = 0, h.firm
			}
			h.hi, h.trail = max(h.asked, o.until), o.until
		}
		h.kept, h.askedSince = false, false
	}
	s.set(h)
}
