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
	// IDBytes is the length of an id. The scripts rely on it: they cut ids apart by it.
	IDBytes  = 16
	idDigits = "0123456789abcdefghijklmnopqrstuv"
	half     = 40 // bits in 8 digits
)

// startIDs chooses the letters of this proxy. The number begins in the lower half of its range, so that it
// does not soon carry.
func (r *requestIDs) startIDs() {
	r.proxy = rand.Uint64()
	r.last.Store(rand.Uint64N(1 << (half - 1)))
}

// nextID returns the id of a new request. Its first digit is a letter that is no hex digit, which keeps it
// apart from ids made of a client's own name and from those that scripts make for themselves. When the number
// has gone through its 40 bits, the letters become other ones.
func (r *requestIDs) nextID() (id [IDBytes]byte) {
	n := r.last.Add(1)
	proxy := (r.proxy+n>>half)%(1<<(half-1)) | 1<<(half-1)
	for i := IDBytes/2 - 1; i >= 0; i-- {
		id[i], id[i+IDBytes/2] = idDigits[proxy&31], idDigits[n&31]
		proxy, n = proxy>>5, n>>5
	}
	return id
}
