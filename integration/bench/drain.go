package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"
)

const (
	// drainHold is how long each of those who wait holds the lock, once.
	drainHold = time.Millisecond
	// mostPolling is how many may wait where waiting means to ask again and again.
	mostPolling = 50
)

// drainCounts are how many wait.
var drainCounts = []int{2, 10, 50, 1000}

func draining(n int) string { return fmt.Sprintf("drain of %d", n) }

// drains measures how a queue runs empty: so many wait, each gets the lock, holds it for a moment, and
// leaves. A hand-over is from the release being sent to the next one having read the grant.
func drains(ctx context.Context, ways []lockWay, scripted map[string]map[string]bool, o options,
	r results) error {
	for round := range o.rounds {
		for _, n := range drainCounts {
			progress("round %d of %d: %s waiters", round+1, o.rounds, draining(n))
			for _, w := range rotated(ways, round) {
				if n > mostPolling && w.queued == nil || n > o.most {
					continue
				}
				s, err := w.drain(ctx, n, min(100, o.requests/200), scripted[w.name])
				if err != nil && !w.hung(err) {
					return fmt.Errorf("%s, %s waiters: %w", w.name, draining(n), err)
				}
				if err == nil {
					r.add(draining(n), w.name, s)
				}
			}
		}
	}
	return nil
}

// hung says whether a yardstick has lost somebody who waits, which rueidislock does at times, and tells it.
// A lockproxy must not.
func (w lockWay) hung(err error) bool {
	hung := w.queued == nil && errors.Is(err, context.DeadlineExceeded)
	if hung {
		progress("%s: %v: this measurement is left out", w.name, err)
	}
	return hung
}

// drain lets a queue run empty as often as it takes to see so many hand-overs.
func (w lockWay) drain(ctx context.Context, waiters, grants int, scripted map[string]bool) (sample, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*patience)
	defer cancel()
	q := queue{way: w, key: fmt.Sprintf("bench:%016x", rand.Uint64()), counter: newCounter(w.nodes),
		spent: map[string]spending{}}
	defer q.counter.close()
	defer func() {
		for _, l := range q.all {
			l.close()
		}
	}()
	for i := range waiters + 1 {
		l, err := w.locker(ctx, q.key, i)
		if err != nil {
			return sample{}, err
		}
		q.all = append(q.all, l)
	}
	for len(q.took) < grants {
		if err := q.drain(ctx); err != nil {
			return sample{}, err
		}
	}
	s := timesOf(q.took, 0)
	s.shares = sharesOf(q.took)
	s.account, s.inside = perScript(q.spent, scripted)
	return s, nil
}

// queue is a lock that the first one holds, and all others wait for.
type queue struct {
	way     lockWay
	key     string
	all     []locker
	counter *counter

	mu       sync.Mutex
	released time.Time       // when its last holder began to release
	took     []time.Duration // all hand-overs
	failed   error

	spent map[string]spending // by Redis while it drained
}

// drain has the first one take the lock, the others wait, and then all leave.
func (q *queue) drain(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if err := q.all[0].lock(ctx); err != nil {
		return fmt.Errorf("lock: %w", err)
	}
	granted := len(q.took)
	var waiting sync.WaitGroup
	for _, l := range q.all[1:] {
		waiting.Go(func() {
			if err := q.take(ctx, l); err != nil {
				q.fail(err)
				cancel() // the others too
			}
		})
	}
	before, err := q.ready(ctx, granted)
	if err == nil {
		err = q.leave(ctx, q.all[0])
	}
	if err != nil {
		q.fail(err)
		cancel()
	}
	waiting.Wait()
	if q.failed != nil {
		return q.failed
	}
	after, err := q.counter.spent(ctx)
	for name, n := range after {
		q.spent[name] = spending{q.spent[name].calls + n.calls - before[name].calls,
			q.spent[name].usec + n.usec - before[name].usec}
	}
	return err
}

// ready returns when all wait, with what Redis has spent until then. A grant behind the first so many would
// be one too many.
func (q *queue) ready(ctx context.Context, granted int) (map[string]spending, error) {
	if err := q.way.wait(ctx, q.key, len(q.all)-1); err != nil {
		return nil, err
	}
	before, err := q.counter.spent(ctx)
	q.mu.Lock()
	defer q.mu.Unlock()
	if err == nil && len(q.took) > granted {
		err = errors.New("two hold the lock")
	}
	return before, err
}

// take waits for the lock, holds it for a moment, and leaves.
func (q *queue) take(ctx context.Context, l locker) error {
	if err := l.lock(ctx); err != nil {
		return fmt.Errorf("lock: %w", err)
	}
	now := time.Now()
	q.mu.Lock()
	q.took = append(q.took, now.Sub(q.released))
	q.mu.Unlock()
	if err := pause(ctx, drainHold); err != nil {
		return err
	}
	return q.leave(ctx, l)
}

func (q *queue) leave(ctx context.Context, l locker) error {
	q.mu.Lock()
	q.released = time.Now()
	q.mu.Unlock()
	if err := l.unlock(ctx); err != nil {
		return fmt.Errorf("unlock: %w", err)
	}
	return nil
}

// fail keeps the first error: those behind it follow from it.
func (q *queue) fail(err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.failed == nil {
		q.failed = err
	}
}

// wait waits until so many are in the queue; where nobody can tell, until they have surely asked.
func (w lockWay) wait(ctx context.Context, key string, waiters int) error {
	if w.queued == nil {
		return pause(ctx, 50*time.Millisecond)
	}
	for {
		n, err := w.queued(ctx, key)
		if err != nil || n == waiters {
			return err
		}
		if err := pause(ctx, 5*time.Millisecond); err != nil {
			return fmt.Errorf("%d of %d wait: %w", n, waiters, err)
		}
	}
}

// queuedAt asks a lockproxy how many wait for a lock.
func queuedAt(addr string) func(ctx context.Context, key string) (int, error) {
	return func(ctx context.Context, key string) (int, error) {
		v, err := ask(ctx, addr, "LOCKCTL", "INFO", key)
		if err != nil {
			return 0, err
		}
		all, _ := v.([]any)
		for i := 0; i+1 < len(all); i += 2 {
			if n, ok := all[i+1].(int64); ok && all[i] == "waiters" {
				return int(n), nil
			}
		}
		return 0, fmt.Errorf("unexpected reply %v", v)
	}
}

// perScript is what Redis says that one EVALSHA took, and the commands inside it.
func perScript(spent map[string]spending, scripted map[string]bool) (each, inside time.Duration) {
	runs := spent["evalsha"].calls
	if runs == 0 {
		return 0, 0
	}
	usec := 0
	for name := range scripted {
		usec += spent[name].usec
	}
	return time.Duration(spent["evalsha"].usec) * time.Microsecond / time.Duration(runs),
		time.Duration(usec) * time.Microsecond / time.Duration(runs)
}

// percents are which parts of all hand-overs a plot shows.
var percents = []int{0, 5, 10, 25, 50, 75, 90, 95, 99, 100}

// sharesOf is how many µs the fastest took at most, the fastest 5 %, and so on. They come in order.
func sharesOf(took []time.Duration) (all []float64) {
	for _, p := range percents {
		all = append(all, micro(took[(len(took)-1)*p/100]))
	}
	return all
}

func inside(s sample) float64 { return micro(s.inside) }

func printDrains(rep *report, r results, ways []lockWay) {
	t := table{{"", "p50 µs", "p99 µs", "an EVALSHA, µs", "commands inside it"}}
	for _, n := range drainCounts {
		p := plot{File: fmt.Sprintf("drain-%d", n),
			Title: fmt.Sprintf("Hand-overs while a queue of %d drains", n),
			X:     "µs from the release to the grant", Y: "% of the hand-overs", LogX: true}
		for _, w := range ways {
			what := draining(n)
			rounds := r[what][w.name]
			if len(rounds) == 0 {
				continue
			}
			row := []string{
				what + ", " + w.name,
				fmt.Sprintf("%.0f", r.median(what, w.name, p50)),
				fmt.Sprintf("%.0f", r.median(what, w.name, p99)),
				"", "",
			}
			if w.queued != nil {
				row[3] = fmt.Sprintf("%.1f", r.median(what, w.name, account))
				row[4] = fmt.Sprintf("%.1f", r.median(what, w.name, inside))
			}
			t = append(t, row)
			l := line{Name: w.name}
			for i, percent := range percents {
				l.Add(r.median(what, w.name, func(s sample) float64 { return s.shares[i] }), float64(percent))
			}
			p.Lines = append(p.Lines, l)
		}
		rep.draw(p)
	}
	rep.printf("\n## A queue that drains\n\n%s\nEach of those who wait holds the lock once, for %v.\n"+
		"redsync and rueidislock keep no queue: more than %d of\n"+
		"them are not measured.\n", t, drainHold, mostPolling)
}

// drainTargets holds the results against the targets.
func drainTargets(rep *report, r results) {
	for _, t := range []struct {
		who     string
		waiters int
		limit   float64
	}{{oneProxy, 2, 400}, {oneProxy, 10, 200}, {oneProxy, 50, 200}, {twoProxies, 10, 350}, {twoProxies, 50,
		300}} {
		what := draining(t.waiters)
		rep.hold(atMost(t.limit, "%.0f", fmt.Sprintf("hand-over, %s waiters, %s: p50 µs", what, t.who),
			r.spread(what, t.who, p50)))
		if t.who == twoProxies {
			rep.hold(atMost(700, "%.0f", fmt.Sprintf("hand-over, %s waiters, %s: p99 µs", what, t.who),
				r.spread(what, t.who, p99)))
		}
	}
	what := draining(50)
	rep.hold(atMost(25, "%.1f", "contended EVALSHA, "+what+": µs of Redis, by its own account",
		r.spread(what, oneProxy, account)))
}
