package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// crowd is how many clients have locks of their own.
	crowd = 50
	// contenders is how many want the same lock.
	contenders = 20
)

// quorums are over how many masters a lock is.
var quorums = []int{3, 5}

const (
	alone1    = "one client"
	apart     = "50 clients, own locks"
	contended = "20 clients, one lock"
)

func over(masters int, what string) string { return fmt.Sprintf("%d masters, %s", masters, what) }

// independent measures RedLock: LOCK + UNLOCK through a proxy, over masters that know
// nothing of each other, beside redsync over the same masters.
func independent(ctx context.Context, y *yard, o options, rep *report) error {
	if err := y.openIndependent(ctx); err != nil {
		return err
	}
	r := results{}
	ways := map[int][]lockWay{}
	for _, n := range quorums {
		all, end := y.independentWays(n)
		defer end()
		ways[n] = all
	}
	measures := []struct {
		what string
		take func(lockWay) (sample, error)
	}{
		{alone1, func(w lockWay) (sample, error) { return w.alone(ctx, 1, o.requests/100) }},
		{apart, func(w lockWay) (sample, error) { return w.alone(ctx, crowd, o.requests/crowd/10) }},
		{contended, func(w lockWay) (sample, error) { return contend(ctx, w, contenders-1, o.requests/50) }},
	}
	for round := range o.rounds {
		for _, n := range quorums {
			for _, m := range measures {
				progress("round %d of %d: RedLock, %s", round+1, o.rounds, over(n, m.what))
				for _, w := range rotated(ways[n], round) {
					if err := y.voting(ctx); err != nil {
						return err
					}
					s, err := m.take(w)
					if err != nil {
						return fmt.Errorf("%s, %s: %w", w.name, over(n, m.what), err)
					}
					r.add(over(n, m.what), w.name, s)
				}
			}
		}
	}
	printIndependent(rep, r, ways)
	if y.binary == "" {
		return nil
	}
	independentTargets(rep, r)
	drawIndependent(rep, r, ways)
	return nil
}

// alone has clients take and free locks, each one of its own, n times each. The latencies
// are those of taking it.
func (w lockWay) alone(ctx context.Context, clients, n int) (sample, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	run := rand.Uint64()
	var all []locker
	defer func() {
		for _, l := range all {
			l.close()
		}
	}()
	for i := range clients {
		l, err := w.locker(ctx, fmt.Sprintf("bench:%016x:%d", run, i), i)
		if err != nil {
			return sample{}, err
		}
		all = append(all, l)
	}
	each := func(n int) (took []time.Duration, err error) {
		var mu sync.Mutex
		var busy sync.WaitGroup
		for _, l := range all {
			busy.Go(func() {
				mine, failed := pairsOf(ctx, l, n)
				mu.Lock()
				defer mu.Unlock()
				took = append(took, mine...)
				if failed != nil && err == nil {
					err = failed
					cancel() // the others too
				}
			})
		}
		busy.Wait()
		return took, err
	}
	if _, err := each(1 + n/10); err != nil { // connects, and warms up
		return sample{}, err
	}
	before, err := w.burnt()
	if err != nil {
		return sample{}, err
	}
	begun := time.Now()
	took, err := each(n)
	if err != nil {
		return sample{}, err
	}
	elapsed := time.Since(begun)
	after, err := w.burnt()
	if err != nil {
		return sample{}, err
	}
	slices.Sort(took)
	s := sample{rate: float64(len(took)) / elapsed.Seconds(), p50: took[len(took)/2],
		p99: took[len(took)*99/100]}
	return s.withBurnt(before, after, len(took)), nil
}

// pairsOf takes and frees a lock n times and returns how long each time it took to get it.
func pairsOf(ctx context.Context, l locker, n int) ([]time.Duration, error) {
	took := make([]time.Duration, 0, n)
	for range n {
		begun := time.Now()
		if err := l.lock(ctx); err != nil {
			return took, fmt.Errorf("lock: %w", err)
		}
		took = append(took, time.Since(begun))
		if err := l.unlock(ctx); err != nil {
			return took, fmt.Errorf("unlock: %w", err)
		}
	}
	return took, nil
}

// burnt is CPU that was used so far: by this program, by proxies, by Redis.
type burnt struct{ client, proxy, redis time.Duration }

func (w lockWay) burnt() (b burnt, err error) {
	if b.client, err = cpuTime(os.Getpid()); err != nil {
		return b, err
	}
	if b.proxy, err = cpuOf(w.proxyPIDs); err != nil {
		return b, err
	}
	b.redis, err = cpuOf(w.nodePIDs)
	return b, err
}

// withBurnt shares out among n grants what was used between two looks.
func (s sample) withBurnt(before, after burnt, n int) sample {
	each := time.Duration(n)
	s.client = (after.client - before.client) / each
	s.cpu = (after.proxy - before.proxy) / each
	s.redis = (after.redis - before.redis) / each
	return s
}

func clientCPU(s sample) float64 { return micro(s.client) }

// perCPU is how many grants a second of CPU is good for, on the side of the lock: in the client and
// in the proxy, if there is one.
func perCPU(s sample) float64 { return 1e6 / micro(s.client+s.cpu) }

func printIndependent(rep *report, r results, ways map[int][]lockWay) {
	t := table{{"", "grants/s", "p50 µs", "p99 µs", "client's CPU µs a grant", "proxy's",
		"grants a CPU second",
		"Redis's CPU µs a grant"}}
	for _, n := range quorums {
		for _, what := range []string{over(n, alone1), over(n, apart), over(n, contended)} {
			for _, w := range ways[n] {
				name := w.name
				row := []string{
					what + ", " + name,
					fmt.Sprintf("%.0f", r.median(what, name, rate)),
					fmt.Sprintf("%.0f", r.median(what, name, p50)),
					fmt.Sprintf("%.0f", r.median(what, name, p99)),
					fmt.Sprintf("%.1f", r.median(what, name, clientCPU)),
					"",
					fmt.Sprintf("%.0f", r.median(what, name, perCPU)),
					fmt.Sprintf("%.1f", r.median(what, name, redisCPU)),
				}
				if w.proxyPIDs != nil {
					row[5] = fmt.Sprintf("%.1f", r.median(what, name, cpu))
				}
				t = append(t, row)
			}
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\n## RedLock over independent masters\n\n%s\n", t)
	fmt.Fprintf(&b, `A grant is LOCK and UNLOCK. With own locks each client takes and frees one for which
nobody else asks, and the latencies are those of taking it; with one lock they are those of the hand-over,
from the holder sending the release to the next one having read the grant.

The clients of both are goroutines of this program over go-redis, so that a client of lockproxy pays for its
library too. What a lock costs beside Redis is this program's CPU, and with lockproxy that of the proxy
as well: grants a CPU second are by both together. That holds against lockproxy what a client library costs,
the second hop, fences, and order among those who wait, which redsync does not have; and it
leaves out Redis, whose CPU a grant is in the last column. redsync has its defaults: it waits for all
masters, and asks again after 50 to 250 ms. Both give a master %v, a twentieth of the lease.
`, independentLease/20)
	rep.printf("%s", b.String())
}

// independentTargets holds the results against the targets.
func independentTargets(rep *report, r results) {
	for _, n := range quorums {
		name := fmt.Sprintf("RedLock, %d masters, ", n)
		rep.hold(
			atMost(0.9, "%.2f", name+"one client: p50, against redsync",
				r.versus(over(n, alone1), oneProxy, redsyncName, p50)),
			atLeast(2, "%.2f", name+"50 clients: pairs a second, against redsync",
				r.versus(over(n, apart), oneProxy, redsyncName, rate)),
			atMost(float64(n)/2, "%.2f", name+"50 clients: proxy CPU a pair, against a plain lock's",
				r.versus(over(n, apart), oneProxy, plainName, cpu)),
			atMost(float64(n)/2, "%.2f", name+"one client: proxy CPU a pair, against a plain lock's",
				r.versus(over(n, alone1), oneProxy, plainName, cpu)))
	}
}

// drawIndependent draws throughput and latency.
func drawIndependent(rep *report, r results, ways map[int][]lockWay) {
	const x = "masters: clients; 20 of them want the same lock"
	done := plot{File: "redlock-rate", Title: "RedLock: LOCK + UNLOCK", X: x, Y: "pairs a second"}
	took := plot{File: "redlock-p50", Title: "RedLock: p50 of taking a lock, or of its hand-over", X: x,
		Y: "µs"}
	for i, w := range ways[quorums[0]] {
		d, t := line{Name: w.name}, line{Name: w.name}
		at := 0.
		for _, n := range quorums {
			for _, what := range []string{alone1, apart, contended} {
				if i == 0 {
					clients, _, _ := strings.Cut(what, ",")
					name := fmt.Sprintf("%d: %s", n, clients)
					done.Bars, took.Bars = append(done.Bars, name), append(took.Bars, name)
				}
				d.Add(at, r.median(over(n, what), w.name, rate))
				t.Add(at, r.median(over(n, what), w.name, p50))
				at++
			}
		}
		done.Lines, took.Lines = append(done.Lines, d), append(took.Lines, t)
	}
	rep.draw(done)
	rep.draw(took)
}
