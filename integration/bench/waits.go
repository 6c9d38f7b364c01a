package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"lockproxy/integration/rig"
)

const (
	// longest is how long one contest is watched, however few hand-overs it has.
	longest = 3 * time.Second
	// drainHold is how long each of those who wait holds the lock, once.
	drainHold = time.Millisecond
	// hanging is after how long a yardstick has lost somebody who waits.
	hanging = 30 * time.Second
	// crowd is how many clients have locks of their own.
	crowd = 50
)

// errOver ends all who take part in something that is over.
var errOver = errors.New("over")

// lockers are so many who want the lock of the name that key makes of their number.
func (w way) lockers(ctx context.Context, n int, key func(i int) string) ([]locker, func(), error) {
	var all []locker
	end := func() {
		for _, l := range all {
			l.close()
		}
	}
	for i := range n {
		l, err := w.locker(ctx, key(i), i)
		if err != nil {
			end()
			return nil, nil, err
		}
		all = append(all, l)
	}
	return all, end, nil
}

// alone has clients take and free locks, each one of its own, n times each. The latencies
// are those of taking it.
func (w way) alone(l rig.Life, clients, n int) (sample, error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	run := rand.Uint64()
	own := func(i int) string { return fmt.Sprintf("bench:%016x:%d", run, i) }
	all, end, err := w.lockers(ctx, clients, own)
	if err != nil {
		return nil, err
	}
	defer end()
	each := func(n int) ([]time.Duration, error) {
		return together(cancel, clients, func(i int) (took []time.Duration, err error) {
			for range n {
				begun := time.Now()
				if err := all[i].lock(ctx); err != nil {
					return took, fmt.Errorf("lock: %w", err)
				}
				took = append(took, time.Since(begun))
				if err := all[i].unlock(ctx); err != nil {
					return took, fmt.Errorf("unlock: %w", err)
				}
			}
			return took, nil
		})
	}
	if _, err := each(1 + n/10); err != nil { // connects, and warms up
		return nil, err
	}
	before, begun := w.read(l), time.Now()
	took, err := each(n)
	if err != nil {
		return nil, err
	}
	s := timesOf(took, float64(len(took))/time.Since(begun).Seconds())
	return w.spent(s, w.read(l).plus(-1, before), len(took)), nil
}

// handovers are those of one lock that many want. Each is from the holder sending the release to the next one
// having read the grant.
type handovers struct {
	mu       sync.Mutex
	held     bool
	released time.Time     // when the last holder began to release
	passed   chan struct{} // closed when the next holder has it
	took     []time.Duration
}

// take waits for the lock, and notes the grant; passed is closed at the next one.
func (h *handovers) take(ctx context.Context, l locker) (passed chan struct{}, err error) {
	if err := l.lock(ctx); err != nil {
		return nil, fmt.Errorf("lock: %w", err)
	}
	now := time.Now()
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.held {
		return nil, errors.New("two hold the lock")
	}
	h.held, h.took = true, append(h.took, now.Sub(h.released))
	if h.passed != nil {
		close(h.passed)
	}
	h.passed = make(chan struct{})
	return h.passed, nil
}

// leave gives the lock up.
func (h *handovers) leave(ctx context.Context, l locker) error {
	h.mu.Lock()
	h.held, h.released = false, time.Now()
	h.mu.Unlock()
	if err := l.unlock(ctx); err != nil {
		return fmt.Errorf("unlock: %w", err)
	}
	return nil
}

// contend lets one more than waiters compete for a lock until n hand-overs are counted. Whoever holds it
// gives it up at once and asks again when the next one has it, so that always all but one wait.
func (w way) contend(l rig.Life, waiters, n int) (sample, error) {
	ctx, cancel := context.WithTimeout(context.Background(), longest+w.patience())
	defer cancel()
	key := fmt.Sprintf("bench:%016x", rand.Uint64())
	all, end, err := w.lockers(ctx, waiters+1, func(int) string { return key })
	if err != nil {
		return nil, err
	}
	defer end()
	var (
		h             handovers
		before, after reading
		begun         time.Time
		took          []time.Duration
		elapsed       time.Duration // 0 until all is counted
		warm          = waiters + 10
	)
	_, err = together(cancel, len(all), func(i int) ([]time.Duration, error) {
		for {
			passed, err := h.take(ctx, all[i])
			if err != nil {
				return nil, err
			}
			// All others wait while this one holds the lock.
			if warm--; warm == 0 {
				h.took, before, begun = nil, w.read(l), time.Now()
			} else if warm < 0 && elapsed == 0 && (len(h.took) >= n || time.Since(begun) > longest) {
				took, elapsed, after = h.took, time.Since(begun), w.read(l)
			}
			over := elapsed != 0
			if err := h.leave(ctx, all[i]); err != nil {
				return nil, err
			}
			if over {
				return nil, errOver
			}
			select {
			case <-passed:
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
	})
	if err != errOver {
		return nil, err
	}
	s := timesOf(took, float64(len(took))/elapsed.Seconds())
	return w.spent(s, after.plus(-1, before), len(took)), nil
}

// drain lets a queue run empty as often as it takes to see so many hand-overs: so many wait, each gets the
// lock, holds it for a moment, and leaves.
func (w way) drain(l rig.Life, waiters, grants int) (sample, error) {
	ctx, cancel := context.WithTimeout(context.Background(), w.patience())
	defer cancel()
	key := fmt.Sprintf("bench:%016x", rand.Uint64())
	all, end, err := w.lockers(ctx, waiters+1, func(int) string { return key })
	if err != nil {
		return nil, err
	}
	defer end()
	var h handovers
	used := reading{ran: map[string]spending{}}
	for len(h.took) < grants {
		if _, err := h.take(ctx, all[0]); err != nil {
			return nil, err
		}
		h.took = h.took[:len(h.took)-1] // which was not handed over
		left := make(chan error, 1)
		go func() { // ends when all have left
			_, err := together(cancel, waiters, func(i int) ([]time.Duration, error) {
				_, err := h.take(ctx, all[i+1])
				if err == nil {
					err = rig.Pause(ctx, drainHold)
				}
				if err == nil {
					err = h.leave(ctx, all[i+1])
				}
				return nil, err
			})
			left <- err
		}()
		err := w.wait(ctx, key, waiters, left)
		before := w.read(l)
		if err == nil {
			err = h.leave(ctx, all[0])
		}
		if err != nil {
			cancel()
		}
		if behind := <-left; err == nil || err == errOver || errors.Is(err, context.Canceled) {
			err = behind
		}
		if err != nil {
			return nil, err
		}
		used = used.plus(1, w.read(l)).plus(-1, before)
	}
	return w.spent(timesOf(h.took, 0), used, len(h.took)), nil
}

// wait waits until so many are in the queue; where nobody can tell, until they have surely asked. One who has
// left already is one too many.
func (w way) wait(ctx context.Context, key string, waiters int, left chan error) error {
	if w.queued == nil {
		return rig.Pause(ctx, 50*time.Millisecond)
	}
	for n := 0; n != waiters; {
		err := rig.Pause(ctx, 5*time.Millisecond)
		if err == nil {
			n, err = w.queued(key)
		}
		if len(left) > 0 {
			return errOver
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// patience is after how long somebody who waits is lost. A lockproxy loses nobody, however busy the machine.
func (w way) patience() time.Duration {
	if w.queued != nil {
		return rig.Patience
	}
	return hanging
}

// measured is a sample of locks. A yardstick may have lost somebody who waits, which rueidislock does at
// times: it is told, and there is no sample. A lockproxy must not.
func (w way) measured(l rig.Life, s sample, err error) sample {
	if w.queued == nil && errors.Is(err, context.DeadlineExceeded) {
		l.Logf("%s: %v: this measurement is left out", w.name, err)
	} else if err != nil {
		l.Fatalf("%s: %v", w.name, err)
	}
	return s
}
