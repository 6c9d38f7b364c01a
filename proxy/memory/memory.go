// Package memory bounds what clients take: each by the limits of what waits for it (Limits), and all of
// them together by maxmemory-clients (Account). When they take more, those that take most are closed.
//
// Each client knows the size it was last counted with, each loop the sum of its clients, and each loop
// reports its sum whenever it has changed by grain. So a command that leaves nothing behind costs one or two
// comparisons.
package memory

import (
	"iter"
	"log/slog"
	"sync/atomic"

	"lockproxy/internal/loop"
)

// grain is by how many bytes the sum of a loop changes before it is reported.
const grain = 64 << 10

// Account is what all clients may take and do take, on all loops. Safe for concurrent use.
type Account struct {
	Log     *slog.Logger
	Evicted atomic.Uint64    // clients that were closed because all take too much
	Full    [3]atomic.Uint64 // and because of their own limit, by Class

	loops    []*Loop      // those that Loop has made
	limit    atomic.Int64 // bytes; 0: none
	used     atomic.Int64 // as far as the loops have reported
	evicting atomic.Bool  // an eviction is under way
}

// Limit is how many bytes all clients may take; 0: any number.
func (a *Account) Limit() int64 { return a.limit.Load() }

// SetLimit sets the limit. The loops act on it when they report next.
func (a *Account) SetLimit(n int64) { a.limit.Store(n) }

// Used is how many bytes all clients take.
func (a *Account) Used() int64 { return max(a.used.Load(), 0) }

// Over is by how many bytes the limit is exceeded.
func (a *Account) Over() int64 {
	limit := a.limit.Load()
	if limit == 0 {
		return 0
	}
	return max(a.used.Load()-limit, 0)
}

// Client is a client whose memory is counted. Its methods run on its loop.
type Client interface {
	// Measure counts what the client takes now, in bytes. protected: it is closed only after others.
	Measure() (bytes int, protected bool)
	// Evict closes the client, and logs that if it is named. It reports false if the client has gone.
	Evict(named bool) bool
	// ReadOn goes on with a client that was not read because too much was taken.
	ReadOn()
}

// Loop is the memory of the clients of one loop, to which it belongs.
type Loop struct {
	*loop.Loop
	all *Account
	// Bytes: the sum of what its clients were last counted with, and what of that all.used knows.
	used, told int
	clients    iter.Seq[Client]
}

// Loop makes one more loop, before there is any client. clients are those that it has.
func (a *Account) Loop(on *loop.Loop, clients iter.Seq[Client]) *Loop {
	l := &Loop{Loop: on, all: a, clients: clients}
	a.loops = append(a.loops, l)
	return l
}

// Used is what the clients of the loop take, in bytes.
func (l *Loop) Used() int { return l.used }

// Add counts n more bytes, which may be negative.
func (l *Loop) Add(n int) {
	l.used += n
	if d := l.used - l.told; d >= grain || d <= -grain {
		l.Report()
	}
}

// Report reports the sum, and begins an eviction if all loops take too much and none is under way.
func (l *Loop) Report() {
	l.tellSum()
	l.all.checkLimit()
}

func (l *Loop) tellSum() {
	l.all.used.Add(int64(l.used - l.told))
	l.told = l.used
}
