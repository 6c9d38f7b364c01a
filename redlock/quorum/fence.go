package quorum

import (
	"slices"
	"sync"
	"time"
)

// Fences of a grant are agreed on like this. Each node that grants makes a fence of its own, higher than
// the one that is stored there, and stores it. A grant gets a fence F that
// a majority of nodes has for it: either they all made the same, which the candidate that the
// request carries is for, or settle.lua gives it to them, which refuses it if it is lower than what the
// node made itself, or (for readers) not higher than what is stored. It raises what is stored to F.
//
// Why fences are unique, and rise in the order of time, whatever the clocks do:
//
// Two grants G and H of a lock have majorities, and so share a node n that voted for both. It remembers what
// it has stored, or it would not vote until all leases from before are over.
//
// They exclude each other: then n held them one after the other, say G first. F(G) was stored there while n
// held G. What n made for H is higher than what was stored, and F(H) is not lower than that, since settle
// would have refused it. So F(G) < F(H), and if G was granted before H was asked for, n had G first: had it
// had H first, H's grant would be over there, or G refused.
//
// Both read: say n took F(G) first, by making it or settling on it. It was stored then. After that n makes
// only higher ones, and settles on F(H) only if it is higher, or if n made it for H already: but then it
// would have stored it before it took F(G), which had to be higher, so that F(G) is the higher one. Either
// way they differ. And if G was granted before H was asked for, n made what it made for H after it took F(G),
// and F(H) is not lower than that.
//
// To take the highest of what the nodes made, without giving it back to them, is not enough: the one node
// that G and H share may be one that made a low one for G.

// aheadMost is how far candidates may be ahead of a node's clock. A little less than claim.lua accepts.
const aheadMost = 900 * time.Millisecond

// fences makes candidates: fences that are probably higher than all that are stored on the nodes, and
// not far ahead of their clocks. Only speed depends on it. Safe for concurrent use.
type fences struct {
	mu   sync.Mutex
	born time.Time
	base []int64 // by node: the fence that it would make, less the µs since born
	last int64
}

func (f *fences) start(n int) {
	f.born = time.Now()
	f.base = make([]int64, n)
	for i := range f.base {
		f.base[i] = f.born.UnixMicro()
	}
}

// candidate is a new one.
func (f *fences) candidate() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	sorted := slices.Sorted(slices.Values(f.base))
	highest, middle := sorted[len(sorted)-1], sorted[len(sorted)/2]
	f.last = max(f.last+1, min(highest, middle+aheadMost.Microseconds())+time.Since(f.born).Microseconds())
	return f.last
}

// learn notes that node i made fence, after it was asked at the given time to make candidate. agreed: others
// did too.
func (f *fences) learn(i int, at time.Time, candidate, fence int64, agreed bool) {
	if fence == candidate || fence < candidate && agreed { // of a hold that was there already
		return
	}
	base := fence - at.Sub(f.born).Microseconds()
	if fence > candidate && !agreed { // its clock is ahead: have a little more than it has next time
		base += time.Millisecond.Microseconds()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if fence < candidate {
		f.last = min(f.last, fence) // what was asked for was too far ahead
	}
	f.base[i] = base
}
