package redlock

import (
	"math/rand/v2"
	"sync/atomic"
)

// requestIDs makes the ids of the requests of one proxy: 8 letters and digits that no other proxy has, and a
// number in 8 digits of base 32. So scripts can tell which of two requests of a proxy was made first, and a
// late copy of an UNLOCK leaves a grant alone that was asked for after it. Safe for concurrent use.
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

// next is the id of a new request. The first digit is a letter that no hex digit is: ids that stand for what
// a client calls its request, and those that scripts keep for themselves, are others.
func (r *requestIDs) next() (id [IDBytes]byte) {
	n := r.last.Add(1)
	proxy := (r.proxy+n>>half)%(1<<(half-1)) | 1<<(half-1)
	for i := IDBytes/2 - 1; i >= 0; i-- {
		id[i], id[i+IDBytes/2] = idDigits[proxy&31], idDigits[n&31]
		proxy, n = proxy>>5, n>>5
	}
	return id
}
