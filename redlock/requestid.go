package redlock

import (
	"math/rand/v2"
	"sync/atomic"
)

// requestIDs makes the ids of the requests of one proxy: 8 letters and digits that no other proxy has, then a
// number in 8 digits of base 32. The number tells scripts which of two requests of a proxy was made first, so
// a late copy of an UNLOCK leaves a newer grant alone. Safe for concurrent use.
type requestIDs struct {
	proxy uint64 // 40 random bits
	last  atomic.Uint64
}

const (
	IDBytes  = 16
	idDigits = "0123456789abcdefghijklmnopqrstuv"
	half     = 40 // bits in 8 digits
)

func (r *requestIDs) start() {
	r.proxy = rand.Uint64()
	r.last.Store(rand.Uint64N(1 << (half - 1)))
}

// next returns the id of a new request. Its first digit is a letter that is no hex digit, which keeps it
// apart from ids made of a client's own name and from those that scripts make for themselves.
func (r *requestIDs) next() (id [IDBytes]byte) {
	n := r.last.Add(1)
	proxy := (r.proxy+n>>half)%(1<<(half-1)) | 1<<(half-1)
	for i := IDBytes/2 - 1; i >= 0; i-- {
		id[i], id[i+IDBytes/2] = idDigits[proxy&31], idDigits[n&31]
		proxy, n = proxy>>5, n>>5
	}
	return id
}
