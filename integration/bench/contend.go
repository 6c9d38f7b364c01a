package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

// longest is how long one contest is watched, however few hand-overs it has.
const longest = 3 * time.Second

// contest is one lock that many want. Whoever holds it gives it up at once and
// asks again when the next one has it, so that always all but one wait.
type contest struct {
	mu            sync.Mutex
	held          bool
	released      time.Time           // when the last holder began to release
	passed        chan struct{}       // closed when the next holder has it
	grants        int                 // so far
	warm          int                 // grants that are not counted
	wanted        int                 // hand-overs to count
	begun         time.Time           // of counting
	took          []time.Duration     // the counted hand-overs
	elapsed       time.Duration       // of counting; 0 until it is over
	first         map[string]spending // commands run when counting began
	last          map[string]spending // and when it ended
	count         func() (map[string]spending, error)
	before, after burnt // CPU, when counting began and when it ended
	burnt         func() (burnt, error)
}

// contend lets one more than waiters compete for a lock until n hand-overs are
// counted.
func contend(ctx context.Context, w lockWay, waiters, n int) (sample, error) {
	ctx, cancel := context.WithTimeout(ctx, longest+2*patience)
	defer cancel()
	counter := newCounter(w.nodes)
	defer counter.close()
	c := &contest{
		warm: waiters + 10, wanted: n, passed: make(chan struct{}),
		count: func() (map[string]spending, error) { return counter.spent(ctx) },
		burnt: w.burnt,
	}
	if _, err := c.count(); err != nil { // connects
		return sample{}, err
	}
	key := fmt.Sprintf("bench:%016x", rand.Uint64())
	ended := make(chan error, waiters+1)
	for i := range waiters + 1 {
		go func() {
			err := c.compete(ctx, w, key, i)
			if err != nil || c.over() {
				cancel() // one is through: so are all
			}
			ended <- err
		}()
	}
	var failed error
	for range waiters + 1 {
		// What the cancellation breaks off is no failure.
		if err := <-ended; err != nil && !c.over() && (failed == nil || errors.Is(failed, context.Canceled)) {
			failed = err
		}
	}
	if failed != nil {
		return sample{}, failed
	}
	return c.sample()
}

// compete is the life of one who wants the lock.
func (c *contest) compete(ctx context.Context, w lockWay, key string, i int) error {
	l, err := w.locker(ctx, key, i)
	if err != nil {
		return err
	}
	defer l.close()
	for {
		if err := l.lock(ctx); err != nil {
			return fmt.Errorf("lock: %w", err)
		}
		passed, err := c.granted(time.Now())
		if err != nil {
			return err
		}
		c.releasing()
		if err := l.unlock(ctx); err != nil {
			return fmt.Errorf("unlock: %w", err)
		}
		if c.over() {
			return nil
		}
		select {
		case <-passed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// granted notes a grant. The channel is closed at the next one.
func (c *contest) granted(now time.Time) (passed chan struct{}, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.held {
		return nil, errors.New("two hold the lock")
	}
	c.held = true
	close(c.passed)
	c.passed = make(chan struct{})
	c.grants++
	switch {
	case c.grants < c.warm || c.elapsed != 0:
	case c.grants == c.warm:
		if c.first, err = c.count(); err == nil {
			c.before, err = c.burnt()
		}
		c.begun = time.Now()
	default:
		c.took = append(c.took, now.Sub(c.released))
		if len(c.took) == c.wanted || now.Sub(c.begun) > longest {
			c.elapsed = now.Sub(c.begun)
			if c.after, err = c.burnt(); err == nil {
				c.last, err = c.count()
			}
		}
	}
	return c.passed, err
}

func (c *contest) releasing() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.held = false
	c.released = time.Now()
}

// over says whether all is counted.
func (c *contest) over() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.elapsed != 0
}

func (c *contest) sample() (sample, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := len(c.took)
	if n == 0 || c.last == nil {
		return sample{}, errors.New("no hand-over seen")
	}
	slices.Sort(c.took)
	s := sample{
		rate: float64(n) / c.elapsed.Seconds(),
		p50:  c.took[n/2], p99: c.took[n*99/100],
		commands: map[string]float64{},
	}
	for name, all := range c.last {
		s.commands[name] = float64(all.calls-c.first[name].calls) / float64(n)
	}
	begun, ended := c.first["evalsha"], c.last["evalsha"]
	scripts := spending{ended.calls - begun.calls, ended.usec - begun.usec}
	s.account, _ = perScript(map[string]spending{"evalsha": scripts}, nil)
	return s.withBurnt(c.before, c.after, n), nil
}
