package trace

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"time"
)

// Holder is one of those that LOCKCTL INFO tells of, by which a third client looks at locks.
type Holder struct {
	Digest       string // of its token
	Fence, Count int64
	TTL          time.Duration
}

// digest is what LOCKCTL INFO shows of a token.
func digest(token string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(token)))[:8] }

// found are the holders that o tells of, by their tokens among those of ops. Whoever still asks may hold the
// lock for a while, and then again, or in vain: nil then.
func (o Op) found(ops []Op) map[string]*Op {
	found := map[string]*Op{}
	for _, h := range o.Holders {
		open, check := false, o
		check.Verb, check.Fence, check.TTL, check.Count = Check, h.Fence, h.TTL, h.Count
		check.Set = []string{o.Key} // its lease may be made longer yet, to be equal to that of others
		for _, w := range ops {
			if digest(w.Token) == h.Digest {
				check.Token = w.Token
				open = open || w.acquires() && w.meets(&o)
			}
		}
		if found[check.Token] = nil; !open {
			found[check.Token] = &check
		}
	}
	return found
}

// seen is LOCKCTL INFO: all that it tells of hold the lock, and nobody else. What their owners have asked for
// meanwhile, and nobody has answered yet, may come later.
func (s *lock) seen(o *input) bool {
	one := *o
	for _, token := range slices.Sorted(maps.Keys(o.found)) {
		if check := o.found[token]; check != nil {
			then := lock{now: s.now, holds: slices.Clone(s.holds)}
			one.Op = *check
			if i, ok := then.find(token); ok && o.quorum { // see RaisedFence, HigherCount
				one.Fence, then.holds[i].most = 0, max(one.Count, then.holds[i].most)
			}
			if !then.holding(&one) {
				return false
			}
			s.now = max(s.now, then.now)
		}
	}
	for _, h := range slices.Clone(s.holds) {
		one.Op = o.Op
		one.Verb, one.Token = Check, h.token
		_, told := o.found[h.token]
		nothing := h.fence == 0 || o.quorum && h.ghost >= s.now // is told: of rests, and of what is half done
		if !told && !nothing && !s.absent(&one) {
			return false
		}
	}
	return true
}
