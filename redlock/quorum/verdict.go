package quorum

import (
	"lockproxy/redlock"
	"lockproxy/redlock/scripts"
)

// This file combines the answers of the nodes of a poll. A majority has to say a thing: of two answers that
// exclude each other, only one can have a majority. What fewer nodes have, because others could not be
// reached or because an attempt failed there, is never reported as held. Nor is it reported as gone while the
// silent nodes could make a majority of it: that is NOQUORUM.

// tally counts the nodes that said Null, 0, and anything else. A release says Null if the token holds
// nothing, 0 if its hold was counted down, and something else if it has gone. A BREAK, and a release for a
// keeper, say 0 in place of Null.
func (p *nodeReplies) tally() (null, zero, other int) {
	for _, v := range p.said {
		switch {
		case v.Null():
			null++
		case v.Kind == ':' && v.Int == 0:
			zero++
		default:
			other++
		}
	}
	return null, zero, other
}

// released: held by nobody if a majority has nothing; counted down if a majority counted down; whole if too
// few nodes are left with the hold, and a majority cannot turn out to have had nothing.
func (p *nodeReplies) released() (r redlock.Released, clear bool) {
	null, zero, one := p.tally()
	if zero >= p.q.need {
		return redlock.Released{Held: true}, true
	}
	gone, clear := p.gone(null, one)
	if gone {
		r.Held, r.Whole = true, true
		for _, v := range p.said {
			if len(v.Elems) == 2 { // the hold was kept alive
				r.Keeper = v.Elems[1].Text()
			}
		}
	}
	return r, clear
}

// broken: false if a majority had nothing, true as in gone.
func (p *nodeReplies) broken() (broken, clear bool) {
	_, zero, one := p.tally()
	return p.gone(zero, one)
}

// gone says whether a hold has ended: true if too few nodes are left with it, and a majority cannot turn out
// to have had nothing; false if a majority had nothing. nothing and freed are how many nodes said so.
func (p *nodeReplies) gone(nothing, freed int) (gone, clear bool) {
	gone = nothing+freed >= p.q.need && nothing+p.pending < p.q.need
	return gone, gone || nothing >= p.q.need
}

// renewed: what is left on a majority; nothing if a majority has nothing. A reply is {ms that are left, fence
// if the hold has a new keeper, otherwise 0}, once its clock is taken off.
func (p *nodeReplies) renewed() (r redlock.Renewed, clear bool) {
	var left, fences []int64
	none, keeper := 0, false
	for _, v := range p.said {
		if len(v.Elems) != 2 || v.Elems[0].Int <= 0 {
			none++
			continue
		}
		keeper = keeper || v.Elems[1].Int > 0
		left, fences = append(left, v.Elems[0].Int), append(fences, v.Elems[1].Int)
	}
	switch {
	case none >= p.q.need:
		return r, true
	case len(left) < p.q.need:
		return r, false
	}
	r.Left = ms(p.leaseLeft(highest(left, p.q.need)))
	if keeper && r.Left > 0 {
		r.Fence, clear = p.common(p.q.fences.believed(fences))
		return r, clear
	}
	return r, true
}

// kept is what was left of each hold of a batch when it was asked about, in ms, at least 1 if a majority has
// it; 0: it is gone; -1: for a majority, this proxy does not keep it alive.
func (p *nodeReplies) kept(n int) (all []int64, clear bool) {
	if len(p.said) < p.q.need {
		return nil, false
	}
	all = make([]int64, n)
	for i := range n {
		var left []int64
		gone, other := 0, 0
		for _, v := range p.said {
			switch {
			case len(v.Elems) != n:
				return nil, false
			case v.Elems[i].Int > 0:
				left = append(left, v.Elems[i].Int)
			case v.Elems[i].Int < 0:
				other++
			default:
				gone++
			}
		}
		switch {
		case len(left) >= p.q.need:
			most := highest(left, p.q.need)
			all[i] = max((ms(most) - drift(ms(most))).Milliseconds(), 1)
		case other >= p.q.need:
			all[i] = -1
		// the silent nodes may have it
		case gone+other < p.q.need:
			return nil, false
		// It is gone here, but another proxy may turn out to keep it alive.
		case other+p.pending >= p.q.need:
			return nil, false
		}
	}
	return all, true
}

// state is the lock with the holds that a majority has. The lease of each is what is left on a majority;
// fence, count and age are what most nodes have. A node where the lease of a hold is over does not have it:
// it may have missed a renewal that the others have. clear is false, too, for a reply that makes no sense.
func (p *nodeReplies) state() (s redlock.State, clear bool) {
	if len(p.said) < p.q.need {
		return s, false
	}
	type hold struct {
		owner string
		mode  redlock.Mode
	}
	all := make(map[hold][]redlock.Holder)
	for _, v := range p.said {
		if v.Null() {
			continue
		}
		one, err := scripts.ReadState(v)
		if err != nil {
			return s, false
		}
		for _, h := range one.Holders {
			as := hold{h.Owner, h.Mode}
			if h.TTL <= drift(h.TTL) {
				continue
			}
			h.TTL = ms(p.leaseLeft(h.TTL.Milliseconds())) // 0 if it has taken long to hear of it
			all[as] = append(all[as], h)
		}
	}
	for as, holders := range all {
		if len(holders) < p.q.need {
			if len(holders)+len(p.q.nodes)-len(p.said) >= p.q.need {
				return redlock.State{}, false // the silent nodes may have it
			}
			continue
		}
		h, clear := p.together(holders)
		if !clear {
			return redlock.State{}, false
		}
		h.Owner, h.Mode = as.owner, as.mode
		s.Holders = append(s.Holders, h)
	}
	s.SetRest()
	return s, true
}

// together combines one hold as several nodes have it, with the leases that are left. clear is false as long
// as a fence or a count may still become another one. The age is only shown, so any will do.
func (p *nodeReplies) together(holders []redlock.Holder) (h redlock.Holder, clear bool) {
	var ttls, fences, counts, ages []int64
	for _, one := range holders {
		ttls, fences = append(ttls, one.TTL.Milliseconds()), append(fences, one.Fence)
		counts, ages = append(counts, one.Count), append(ages, one.Age.Milliseconds())
		h.Kept = h.Kept || one.Kept
		if one.Meta != "" {
			h.Meta = one.Meta
		}
	}
	fence, one := p.common(p.q.fences.believed(fences))
	count, same := p.common(counts)
	age, _ := p.common(ages)
	h.TTL, h.Fence, h.Count, h.Age = ms(highest(ttls, p.q.need)), fence, count, ms(age)
	return h, one && same
}

// common returns what most nodes say, and of equally common values the highest. It is clear when a majority
// says so, or when no node is left that could: a node that missed what the others agreed on must not be
// believed before.
func (p *nodeReplies) common(all []int64) (most int64, clear bool) {
	best := 0
	for _, v := range all {
		n := 0
		for _, w := range all {
			if v == w {
				n++
			}
		}
		if n > best || n == best && v > most {
			best, most = n, v
		}
	}
	return most, best >= p.q.need || p.pending == 0
}
