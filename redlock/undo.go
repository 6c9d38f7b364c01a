package redlock

import (
	"context"
	"fmt"
	"time"

	"lockproxy/internal/resp"
)

// undoTimeout bounds one attempt to take something back.
const undoTimeout = 5 * time.Second

// errNoAnswer is what a client hears whose wait was in vain, while nobody knows what
// it left behind.
var errNoAnswer = fmt.Errorf("redlock: Redis did not answer within %v: what the request left there is taken back later", undoTimeout)

// Undo takes back, in the background, whatever a has made: its place in the queue, its hold, or its re-entry.
// It goes on trying for as long as there may be anything to take back: its wait plus one lease. If the
// outcome of a is not known, it looks for what a makes late until then. Independent masters owe it, each by
// itself: what else is asked of them for the lock comes behind it.
func (l *Locker) Undo(a *Acquire) {
	l.forget(a.w)
	if l.quorum != nil {
		_, req := l.cancelRequest(a)
		l.quorum.takeBack(l.Key(a.Name), a.ID, req, time.Now().Add(a.Lease+time.Second))
		return
	}
	l.work.Add(1)
	go func() { // ends when it is taken back, or over, or the Locker is closed
		defer l.work.Done()
		over := time.Now().Add(a.Wait + a.Lease)
		for pause := 20 * time.Millisecond; ; pause = min(2*pause, 5*time.Second) {
			err := l.undoOnce(a)
			if err == nil && a.unsure {
				l.late.watch(l, a, over)
			}
			if err == nil || time.Now().After(over) {
				return
			}
			l.o.Log.Warn("a lock that nobody waits for any more could not be given back yet", "err", err)
			select {
			case <-time.After(pause):
			case <-l.ctx.Done():
				return
			}
		}
	}()
}

// undoOnce is one attempt.
func (l *Locker) undoOnce(a *Acquire) error {
	ctx, cancel := context.WithTimeoutCause(l.ctx, undoTimeout, errNoAnswer)
	defer cancel()
	slot, req := l.cancelRequest(a)
	reply, err := l.upstream.Do(ctx, slot, req, true)
	if err != nil {
		return err
	}
	v, _, err := resp.Parse(reply)
	if err != nil {
		return err
	}
	if v.Err() != "" {
		return ReplyError(v.Err())
	}
	if len(v.Elems) == 4 {
		l.handOver(v.Elems)
	}
	return nil
}
