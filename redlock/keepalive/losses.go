package keepalive

import (
	"crypto/sha256"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"lockproxy/redlock"
)

const (
	// mostLosses is how many losses are remembered at most; then the oldest is forgotten. Each takes some 200
	// bytes.
	mostLosses = 100_000
	// lossMemory is how long a loss is remembered.
	lossMemory = time.Hour
)

// Lost is a hold that was lost although it was kept alive.
type Lost struct {
	Why   Loss
	Fence int64
}

// losses remembers lost holds by lock and token, so that whoever comes with the token of one is told, over
// whatever connection. Only the last loss of a token is remembered. Safe for concurrent use.
type losses struct {
	names *redlock.Names
	so    atomic.Uint64 // so many losses there have been
	size  atomic.Int64  // so many are remembered

	mu  sync.Mutex
	all *simplelru.LRU[lossKey, *remembered] // in the order of the losses
}

// lossKey is a digest of lock and token: it takes the same memory whatever clients name.
type lossKey [sha256.Size]byte

// remembered is one loss.
type remembered struct {
	Lost
	nth  uint64 // of all losses
	at   time.Time
	told bool // to one who came with the token
}

func newLosses(names *redlock.Names) *losses {
	all, err := simplelru.NewLRU[lossKey, *remembered](mostLosses, nil)
	if err != nil {
		panic(err) // the bound is not positive
	}
	return &losses{names: names, all: all}
}

// keyOf makes the key of a token's hold. Owners all have the same length.
func (l *losses) keyOf(name, token string) lossKey {
	var buf [256]byte
	return sha256.Sum256(l.names.AppendKey(redlock.AppendOwner(buf[:0], token), name))
}

// addLoss remembers a loss.
func (l *losses) addLoss(name, token string, lost Lost) {
	key := l.keyOf(name, token)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all.Remove(key) // so that it goes to the end of the order
	l.all.Add(key, &remembered{Lost: lost, nth: l.so.Add(1), at: time.Now()})
	l.size.Store(int64(l.all.Len()))
}

// tellLoss returns the loss of the token's hold, if that is remembered, has the fence and is wanted. If it is
// not wanted, forget says whether it is forgotten. It also forgets what is too old: there is no timer for
// that. wanted is called with mu held.
func (l *losses) tellLoss(name, token string, fence int64, forget bool, wanted func(*remembered) bool) (
	lost Lost, ok bool) {
	// nearly always, and without the lock
	if l.size.Load() == 0 {
		return lost, false
	}
	key := l.keyOf(name, token)
	l.mu.Lock()
	defer l.mu.Unlock()
	for {
		_, oldest, some := l.all.GetOldest()
		if !some || time.Since(oldest.at) < lossMemory {
			break
		}
		l.all.RemoveOldest()
	}
	switch one, known := l.all.Peek(key); {
	case !known:
	case (fence == 0 || fence == one.Fence) && wanted(one):
		lost, ok, one.told = one.Lost, true, true
	case forget:
		l.all.Remove(key)
	}
	l.size.Store(int64(l.all.Len()))
	return lost, ok
}

// Losses is how many holds were lost so far, for Relied.
func (l *losses) Losses() uint64 { return l.so.Load() }

// Lost returns the loss of the token's last hold, if it is remembered; with a fence that is not 0 that of the
// hold with that fence. Whoever asks tells the client.
func (l *losses) Lost(name, token string, fence int64) (Lost, bool) {
	return l.tellLoss(name, token, fence, false, func(*remembered) bool { return true })
}

// Untold is Lost, unless somebody who came with the token was told of that loss before.
func (l *losses) Untold(name, token string, fence int64) (Lost, bool) {
	return l.tellLoss(name, token, fence, false, func(one *remembered) bool { return !one.told })
}

// Relied returns the loss of the token's hold if it came behind the first so many losses: while a verb was on
// its way, which Redis has answered that the token holds the lock. An earlier loss is history then, and is
// forgotten. With a fence that is not 0 the verb was about the hold with that fence alone.
func (l *losses) Relied(so uint64, name, token string, fence int64) (Lost, bool) {
	return l.tellLoss(name, token, fence, true, func(one *remembered) bool { return one.nth > so })
}
