package redlock

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"lockproxy/internal/journal"
	"lockproxy/internal/sleep"
)

const (
	// undoTimeout bounds one attempt to take something back.
	undoTimeout = 5 * time.Second
	// undoneAfter is how long it is tried to take something back before the log has it: most outages are over
	// by then, and the log has them as such.
	undoneAfter = 10 * time.Second
	// maxLate bounds how many requests of unknown outcome are taken back once more. What others beyond that
	// do late ends with its lease.
	maxLate = 1000
)

// errNoAnswer is what a client hears whose wait was in vain, while nobody knows what it left behind.
var errNoAnswer = fmt.Errorf("redlock: Redis did not answer within %v", undoTimeout)

// Undoer takes back what requests have left in Redis, for an engine whose locks have one Redis each. Safe for
// concurrent use.
type Undoer struct {
	// Ctx ends with Close, and Work is what Close waits for: what else an engine does when nobody waits.
	Ctx  context.Context
	Work sync.WaitGroup

	cancel  context.CancelFunc
	waiters Forgetter
	once    func(context.Context, *Acquire) error // makes one attempt
	log     *slog.Logger
	lines   journal.Again
	late    sync.WaitGroup // those that are taken back once more

	lately atomic.Int64 // how many late has

	mu  sync.Mutex
	all map[[2]string]int // that are being taken back, by name and token
}

// Forgetter has those who wait for the locks of an engine.
type Forgetter interface {
	// Forget drops who waits for a: it need not be told anything any more.
	Forget(a *Acquire)
	// Close is called when nobody waits any more.
	Close()
}

// NewUndoer is an Undoer that makes its attempts by once. waiters forgets who waits for what is taken back;
// Close closes it, too.
func NewUndoer(log *slog.Logger, waiters Forgetter, once func(context.Context, *Acquire) error) *Undoer {
	u := &Undoer{waiters: waiters, once: once, log: log, all: make(map[[2]string]int)}
	u.Ctx, u.cancel = context.WithCancel(context.Background())
	return u
}

// UndoOnce makes one attempt to take back what a left.
func (u *Undoer) UndoOnce(a *Acquire) error {
	ctx, cancel := context.WithTimeoutCause(u.Ctx, undoTimeout, errNoAnswer)
	defer cancel()
	return u.once(ctx, a)
}

// Undo takes back what a left, in the background. There is one goroutine for each a, however often it has to
// try: the pauses grow from 20 ms to 5 s.
func (u *Undoer) Undo(a *Acquire) {
	u.waiters.Forget(a)
	u.countUndo(a, 1)
	u.Work.Go(func() { // ends when it is taken back, or over, or u is closed
		defer u.countUndo(a, -1)
		began := time.Now()
		over := began.Add(a.Wait + a.Lease)
		for pause := 20 * time.Millisecond; ; pause = min(2*pause, 5*time.Second) {
			err := u.UndoOnce(a)
			if err == nil && a.Unsure {
				u.undoLate(a, over)
			}
			if err == nil || time.Now().After(over) {
				return
			}
			if time.Since(began) >= undoneAfter { // in an outage that is each lock that was waited for
				u.lines.Write(u.log, slog.LevelWarn,
					"a lock that nobody waits for any more could not be given back yet", "err", err)
			}
			if !sleep.For(u.Ctx, pause) {
				return
			}
		}
	})
}

// undoLate takes back, until over, what a request of unknown outcome does late: it may still be in the
// network when its cancel finds nothing, and run after it. So the cancel is sent again after 1, 3, 9, 27 s
// and so on. Close does not wait for that time.
func (u *Undoer) undoLate(a *Acquire, over time.Time) {
	if u.lately.Add(1) > maxLate {
		u.lately.Add(-1)
		return
	}
	began := time.Now()
	u.late.Go(func() { // ends at over, or with u.Ctx
		defer u.lately.Add(-1)
		for after := time.Second; ; after *= 3 {
			next := began.Add(after)
			if next.After(over) || !sleep.For(u.Ctx, time.Until(next)) {
				return
			}
			if err := u.UndoOnce(a); err != nil {
				u.log.Debug("a lock that may have been taken late could not be given back now", "err", err)
			}
		}
	})
}

// countUndo counts, for Undoing, one more that is being taken back (1), or one less (-1).
func (u *Undoer) countUndo(a *Acquire, n int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	of := [2]string{a.Name, a.Token}
	if u.all[of] += n; u.all[of] == 0 {
		delete(u.all, of)
	}
}

// Undoing says that something of that token is being taken back.
func (u *Undoer) Undoing(name, token string) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.all[[2]string{name, token}] > 0
}

// errUndoing is for a client that asks about a hold that may be taken back at any moment.
var errUndoing = ReplyError("TRYAGAIN what a failed request of this token may have left is being " +
	"taken back: ask again, or UNLOCK it")

// RefuseUndoing has by answer with what refuse makes of errUndoing, if something of that token is being taken
// back: the client would rely on an answer about its hold. It reports false otherwise, also for the token "".
func (u *Undoer) RefuseUndoing(by Caller, name, token string, refuse func(error) []byte) bool {
	if token == "" || !u.Undoing(name, token) {
		return false
	}
	by.Await(func(done func([]byte)) { done(nil) }, func([]byte) []byte { return refuse(errUndoing) }, nil)
	return true
}

// Close waits until all is taken back, at the latest until ctx ends. What could not be taken back ends with
// its lease.
func (u *Undoer) Close(ctx context.Context) {
	stop := context.AfterFunc(ctx, u.cancel)
	defer stop()
	u.Work.Wait()
	u.cancel()
	u.late.Wait()
	u.waiters.Close()
}
