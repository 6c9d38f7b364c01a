package discovery

import (
	"context"
	"time"
)

const (
	// What is hinted at is done hintDelay after the hint, but not before hintGap has passed since the last
	// time.
	hintDelay = 10 * time.Millisecond
	hintGap   = 50 * time.Millisecond
)

// waker says when a goroutine does again what it does all the time: after a pause, or earlier after a hint.
// Many hints make it do that once. waitForTurn and what it sets belong to that goroutine; hints come from
// any.
type waker struct {
	hints  chan struct{} // capacity 1
	calls  chan struct{} // the same, of hints that do not wait
	hinted bool          // waitForTurn has ended by a hint
	began  time.Time     // when waitForTurn has ended last
}

func newWaker() waker { return waker{hints: make(chan struct{}, 1), calls: make(chan struct{}, 1)} }

// hint ends waitForTurn soon. It never blocks.
func (w *waker) hint() { putOnce(w.hints) }

// hintNow ends waitForTurn at once. It never blocks.
func (w *waker) hintNow() { putOnce(w.calls) }

// putOnce puts something into c, which has the capacity for one, unless it is there already.
func putOnce(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// waitForTurn waits until it is time. It returns false when ctx ends.
func (w *waker) waitForTurn(ctx context.Context, pause time.Duration) bool {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	w.hinted = false
	select {
	case <-ctx.Done():
	case <-timer.C:
	case <-w.calls:
	case <-w.hints:
		w.hinted = true
		select {
		case <-ctx.Done():
		case <-w.calls:
		case <-time.After(max(hintDelay, time.Until(w.began.Add(hintGap)))):
		}
		select { // this time serves the hints of meanwhile too
		case <-w.hints:
		default:
		}
	}
	w.began = time.Now()
	return ctx.Err() == nil
}

// restOfPause is what is left of a pause that began when waitForTurn ended last; below 0 if that is over.
func (w *waker) restOfPause(pause time.Duration) time.Duration { return time.Until(w.began.Add(pause)) }
