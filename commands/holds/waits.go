package holds

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"lockproxy/internal/resp"
	"lockproxy/redlock"
)

// Waits are the waits for locks that a connection does not stand still for (NOTIFY). The zero value is ready
// and costs nothing. Its methods are called on the loop of the connection.
type Waits struct{ all *waits }

// waits is the content of Waits, made with the first one. Waits end on goroutines, hence the mutex. A Wait is
// in all from Begin to End, and in standing until its message is on its way.
type waits struct {
	mu       sync.Mutex
	all      map[*Wait]struct{}
	standing map[holdKey]*Wait // those whose message is not on its way yet
	memory   atomic.Int64      // bytes that they take up
}

// Wait is one of them. Its goroutine calls Leave and End; the loop of the connection ends it by its context.
type Wait struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	of     *waits
	room   *Room
	key    holdKey
	size   int64
}

// Room is how many waits there may be in this process. Safe for concurrent use. Most is set before it is
// used.
type Room struct {
	Most  int
	taken atomic.Int64
}

// waitCost is the memory of a wait without its names: a goroutine, and what it asks for.
const waitCost = 13 << 10

// ErrUnlocked is why a wait ends whose token is unlocked.
var ErrUnlocked = redlock.ReplyError("UNBLOCKED UNLOCK has ended this wait: nothing is held")

// Begin notes a wait of token for a lock, whose other texts have more bytes. It fails if that token waits for
// that lock already, or if the connection has its share of the room: as many as are left for all others. more
// is in bytes. Whoever gets a Wait calls End.
func (w *Waits) Begin(room *Room, name, token string, more int) (*Wait, error) {
	if w.all == nil {
		w.all = &waits{all: make(map[*Wait]struct{}), standing: make(map[holdKey]*Wait)}
	}
	all := w.all
	key := holdKey{name, token}
	all.mu.Lock()
	defer all.mu.Unlock()
	if all.standing[key] != nil {
		return nil, fmt.Errorf("ERR this token waits for %s on this connection already: its message is "+
			"still to come", resp.Clip([]byte(name)))
	}
	if free := int64(room.Most) - room.taken.Load(); int64(len(all.all)) >= free {
		return nil, fmt.Errorf("QUEUEFULL this connection waits with NOTIFY %d times, and only %d waits are "+
			"left for all others: wait for some to end, or raise lock-max-notify", len(all.all), free)
	}
	one := &Wait{of: all, room: room, key: key, size: int64(waitCost + len(name) + len(token) + more)}
	one.ctx, one.cancel = context.WithCancelCause(context.Background())
	all.all[one], all.standing[key] = struct{}{}, one
	all.memory.Add(one.size)
	room.taken.Add(1)
	return one, nil
}

// Context ends when the wait has to. Its cause is ErrUnlocked, or the why of Close or Drain.
func (w *Wait) Context() context.Context { return w.ctx }

// Leave notes that the token does not wait any more: it may ask for the lock again. It may be called again.
// It is called before the message is published, for the client may act on that at once.
func (w *Wait) Leave() {
	w.of.mu.Lock()
	defer w.of.mu.Unlock()
	if w.of.standing[w.key] == w {
		delete(w.of.standing, w.key)
	}
}

// End notes that nothing is left of the wait. It is called once.
func (w *Wait) End() {
	w.Leave()
	w.of.mu.Lock()
	defer w.of.mu.Unlock()
	delete(w.of.all, w)
	w.cancel(nil)
	w.of.memory.Add(-w.size)
	w.room.taken.Add(-1)
}

// Unlock ends the wait of token for a lock, if there is one. The wait tells by its message that it has ended.
// It stands until then, so the token cannot wait anew before.
func (w *Waits) Unlock(name, token string) {
	if w.all == nil {
		return
	}
	w.all.mu.Lock()
	defer w.all.mu.Unlock()
	if one := w.all.standing[holdKey{name, token}]; one != nil {
		one.cancel(ErrUnlocked)
	}
}

// Each wait that ends says so at Redis. So a client that goes with very many of them would hold up the
// others: no more than endAtOnce of its waits are about to end at a time, so their pace is that of Redis.
const (
	endAtOnce = 256
	endPause  = 20 * time.Millisecond
)

// Close ends all waits: the connection has ended, or begins anew. It does not block: a goroutine, which ends
// with the last of them, ends those behind the first portion. Waits that are begun after that are none of
// them.
func (w *Waits) Close(why error) {
	all := w.all
	left := w.takeWaits()
	end := func(n int) {
		n = min(max(n, 0), endAtOnce, len(left)) // others of left may have ended by themselves
		for _, one := range left[:n] {
			one.cancel(why)
		}
		left = left[n:]
	}
	if end(endAtOnce); len(left) == 0 {
		return
	}
	go func() {
		for len(left) > 0 {
			time.Sleep(endPause)
			all.mu.Lock()
			ending := len(all.all) - len(left)
			all.mu.Unlock()
			end(endAtOnce - ending)
		}
	}()
}

// Drain ends all waits at once: the process ends, and their clients have to hear of it before.
func (w *Waits) Drain(why error) {
	for _, one := range w.takeWaits() {
		one.cancel(why)
	}
}

// takeWaits returns all waits, and forgets them. They still count against the Room until each has ended.
func (w *Waits) takeWaits() []*Wait {
	all := w.all
	if all == nil {
		return nil
	}
	w.all = nil
	all.mu.Lock()
	defer all.mu.Unlock()
	return slices.Collect(maps.Keys(all.all))
}

// Any says that the connection waits for a lock.
func (w *Waits) Any() bool { return w.Memory() > 0 }

// Memory is how many bytes the waits take.
func (w *Waits) Memory() int {
	if w.all == nil {
		return 0
	}
	return int(w.all.memory.Load())
}
