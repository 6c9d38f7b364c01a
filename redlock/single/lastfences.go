package single

import (
	"hash/maphash"
	"sync/atomic"
)

// lastFences remembers the fences of some thousands of writers that were last granted locks through this
// proxy. An UNLOCK names the fence that its hold should have. If the hold has that fence and is unchanged
// since the grant, Redis need not check whether this UNLOCK is a copy of one that freed an earlier hold.
// Several holds share a place, so the fence may be wrong, which only costs that check. Safe for concurrent
// use.
type lastFences struct {
	seed   maphash.Seed
	fences [1 << 14]atomic.Int64
}

func newLastFences() *lastFences { return &lastFences{seed: maphash.MakeSeed()} }

// of returns the place for what a token holds.
func (l *lastFences) of(name, token string) *atomic.Int64 {
	h := 31*maphash.String(l.seed, name) + maphash.String(l.seed, token)
	return &l.fences[h%uint64(len(l.fences))]
}
