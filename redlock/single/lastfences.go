package single

import (
	"hash/maphash"
	"sync/atomic"
)

// lastFences are the fences of the writers that were granted locks through this proxy last, some thousands of
// them. An UNLOCK says the one that its hold should have: if the hold has it, and is as it was granted, Redis
// need not look whether this UNLOCK is a copy of one that has freed an earlier hold. Many share a place, so
// what it says may be wrong. Safe for concurrent use.
type lastFences struct {
	seed   maphash.Seed
	fences [1 << 14]atomic.Int64
}

func newLastFences() *lastFences { return &lastFences{seed: maphash.MakeSeed()} }

// of is the place of what a token holds.
func (l *lastFences) of(name, token string) *atomic.Int64 {
	h := 31*maphash.String(l.seed, name) + maphash.String(l.seed, token)
	return &l.fences[h%uint64(len(l.fences))]
}
