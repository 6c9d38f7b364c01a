package single

import (
	"sync"
	"sync/atomic"
	"time"

	"lockproxy/redlock"
)

// lateUndo takes back what requests of unknown outcome do late. Such a request may still be in the network
// when its cancel finds nothing, and run after it. So the cancel is sent again after 1, 3, 9, 27 s and so on,
// until the engine is closed. Safe for concurrent use.
type lateUndo struct {
	cancels atomic.Int64 // that are sent again
	running sync.WaitGroup
}

// maxLate bounds how many requests have their cancel sent again. What others beyond that do late ends with
// its lease.
const maxLate = 1000

// watch takes back what a does, until over. Engine.Close waits for it, after ending e.ctx.
func (t *lateUndo) watch(e *Engine, a *redlock.Acquire, over time.Time) {
	if t.cancels.Add(1) > maxLate {
		t.cancels.Add(-1)
		return
	}
	began := time.Now()
	t.running.Go(func() { // ends at over, or with e.ctx
		defer t.cancels.Add(-1)
		for after := time.Second; ; after *= 3 {
			next := began.Add(after)
			if next.After(over) {
				return
			}
			select {
			case <-time.After(time.Until(next)):
			case <-e.ctx.Done():
				return
			}
			if err := e.UndoOnce(a); err != nil {
				e.o.Log.Debug("a lock that may have been taken late could not be given back now", "err", err)
			}
		}
	})
}
