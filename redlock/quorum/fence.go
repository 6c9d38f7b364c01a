package quorum

import (
	"slices"
	"sync"
	"time"
)

// The nodes agree on the fence of a grant like this. Each node that grants makes a fence of its own, higher
// than the stored one, and stores it. The grant gets a fence F that a majority of nodes has for it. Either
// they all made the same fence, which is what the candidate in the request is for; or settle.lua gives F to
// them. settle.lua refuses F if it is lower than what the node made itself, or (for readers) not higher than
// what is stored. Otherwise it raises what is stored to F.
//
// Why fences are unique, and rise in the order of time, whatever the clocks do:
//
// Any two grants G and H of a lock have majorities, so they share a node n that voted for both. n remembers
// what it stored; a node that does not may not vote until all earlier leases are over.
//
// If G and H exclude each other, n held them one after the other, say G first. F(G) was stored on n while n
// held G. What n made for H is higher than that, and F(H) is not lower than what n made for H, or settle
// would have refused it. So F(G) < F(H). And if G was granted before H was asked for, then n did have G
// first: had n had H first, H's grant would be over there, or G refused.
//
// If both are readers, say n took F(G) first, by making it or by settling on it, and stored it. After that n
// makes only higher fences. It settles on F(H) only if F(H) is higher than what is stored, or if n itself
// made F(H) for H before; but in that case F(H) was stored before n took F(G), which had to be higher still.
// Either way the two differ. And if G was granted before H was asked for, n made its fence for H after it
// took F(G), and F(H) is not lower than that.
//
// Taking the highest fence that the nodes made, without giving it back to them, is not enough: the one node
// that G and H share may be one that made a low fence for G.

// One node that is wrong, or lies, must not spoil the fences of the others: a fence that all took over from
// it could leave no higher ones. So what cannot be a fence is no vote: what has not 16 digits, or is beyond
// what scripts can count, or is far ahead of the clocks of most nodes, unless a majority is, whose clocks
// once were.

const (
	// A fence has 16 digits, because scripts compare fences as texts, and is at most 2^53, because Lua counts
	// in doubles. A clock in µs since 1970 has 16 digits from 2001 until 2286.
	leastFence = 1_000_000_000_000_000
	mostFence  = 1 << 53
	// farAhead is how far a fence may be ahead of the clocks of most nodes before it is doubted.
	farAhead = 24 * time.Hour
	// aheadOfOthers is how far ahead of a majority a node can be whose fences the clocks have not reached: it
	// has made as many grants that the majority has missed.
	aheadOfOthers = 1_000_000
)

// mostBeside is the highest that can be a fence if a majority has this one, or 0 if that is not known.
func (f *fences) mostBeside(fence int64) int64 {
	most := f.clock() + farAhead.Microseconds()
	return min(max(most, min(fence, mostFence)+aheadOfOthers), mostFence)
}

// believed is all without what is too high for a fence.
func (f *fences) believed(all []int64) []int64 {
	most := f.mostBeside(highest(all, f.need))
	return slices.DeleteFunc(all, func(fence int64) bool { return fence > most })
}

// aheadMost is how far a candidate may be ahead of a node's clock: a little less than claim.lua accepts.
const aheadMost = 900 * time.Millisecond

// fences makes candidates: fences that are probably higher than all that the nodes have stored, and not far
// ahead of their clocks. Only speed depends on them. Safe for concurrent use.
type fences struct {
	need int // how many nodes are a majority

	mu   sync.Mutex
	born time.Time
	base []int64 // by node: the fence that it would make now, less the µs since born
	is   []int64 // by node: its clock, likewise
	// The last candidate. The next one is higher, unless learnFence finds that this one was too far ahead.
	last int64
}

// startFences makes f for n nodes. Until they are heard, their clocks are taken for that of this machine.
func (f *fences) startFences(n, need int) {
	f.need, f.born = need, time.Now()
	f.base = make([]int64, n)
	for i := range f.base {
		f.base[i] = f.born.UnixMicro()
	}
	f.is = slices.Clone(f.base)
}

// noteClock notes that node i's clock shows this now. clock is in µs since 1970.
func (f *fences) noteClock(i int, clock int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.is[i] = clock - time.Since(f.born).Microseconds()
}

// clock is what the clocks of most nodes show now, in µs. That of this machine stands for those that have not
// been heard.
func (f *fences) clock() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return highest(f.is, f.need) + time.Since(f.born).Microseconds()
}

// candidate returns a new candidate: the fence that the node with the highest one would make now. A node
// takes the candidate over if it is higher than its own last fence and at most a second ahead of its clock,
// so it may not be further ahead than that of the node in the middle. If all nodes of a majority take it
// over, they agree at once, and settle.lua is not needed.
func (f *fences) candidate() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	most := min(slices.Max(f.base), highest(f.base, f.need)+aheadMost.Microseconds())
	f.last = max(f.last+1, most+time.Since(f.born).Microseconds())
	return f.last
}

// learnFence notes that node i made fence when it was asked at that time to make candidate. agreed: other
// nodes made the same fence. A candidate that was too low, or too far ahead, is the reason why nodes make
// other ones.
func (f *fences) learnFence(i int, at time.Time, candidate, fence int64, agreed bool) {
	if fence == candidate || fence < candidate && agreed { // the fence of an older hold
		return
	}
	base := fence - at.Sub(f.born).Microseconds()
	if fence > candidate && !agreed { // its clock is ahead: go a little beyond it next time
		base += time.Millisecond.Microseconds()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if fence < candidate {
		f.last = min(f.last, fence) // the candidate was too far ahead
	}
	f.base[i] = base
}
