package main

import (
	"context"
	"fmt"
	"math/rand/v2"

	"lockproxy/redlock"
)

const (
	costConns   = 50
	costBatch   = 16                                  // commands at a time over each connection
	costBatches = 48                                  // of each connection in a phase
	costPhase   = costConns * costBatch * costBatches // commands
	costName    = "lockproxy, watched"
	costPair    = "LOCK + UNLOCK"
)

// lockCosts measures what a LOCK costs a lockproxy before the cluster, which is watched: CPU, beside a GET,
// and what it allocates for LOCK and UNLOCK.
type lockCosts struct {
	proxy contender
	admin string
	redis []int
}

func (y *yard) startLockCosts(ctx context.Context) (l lockCosts, err error) {
	l.proxy, l.admin, err = y.startLockproxy(ctx, y.masters, true)
	l.proxy.name, l.redis = costName, y.masterPIDs
	return l, err
}

// measure takes all of it, the phases as often as there are so many commands.
func (l lockCosts) measure(ctx context.Context, r results, o options) error {
	for range max(1, o.requests/costPhase) {
		if err := l.phases(ctx, r); err != nil {
			return err
		}
	}
	before, err := allocations(ctx, l.admin)
	if err != nil {
		return err
	}
	if _, err := throughProxy(l.proxy, l.redis).measure(ctx, pipelined50, o); err != nil {
		return err
	}
	after, err := allocations(ctx, l.admin)
	pairs := float64(o.requests) * pipelined50.share / 2
	r.add(costPair, costName, sample{objects: (after.objects - before.objects) / pairs,
		bytes: (after.bytes - before.bytes) / pairs})
	return err
}

// phases takes locks, frees them, and asks for as many keys.
func (l lockCosts) phases(ctx context.Context, r results) error {
	run, token, px := rand.Uint32(), redlock.NewToken(), fmt.Sprint(lease.Milliseconds())
	for _, p := range []struct {
		name  string
		good  func([]byte) bool
		words func(lock string) []string
	}{
		{"LOCK", lockedOrFreed, func(lock string) []string {
			return []string{"LOCK", lock, "TOKEN", token,
				"PX", px}
		}},
		{"UNLOCK", lockedOrFreed, func(lock string) []string { return []string{"UNLOCK", lock, token} }},
		{"GET", null, func(lock string) []string { return []string{"GET", lock} }},
	} {
		s, err := l.phase(ctx, p.good, func(i,
			k int) []string {
			return p.words(fmt.Sprintf("bench:%08x:%03d:%03d", run, i, k))
		})
		if err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
		r.add(p.name, costName, s)
	}
	return nil
}

// phase sends a command for each lock.
func (l lockCosts) phase(ctx context.Context, good func([]byte) bool, words func(i,
	k int) []string) (sample, error) {
	load := load{pipeline: costBatch, even: true}
	defer load.close()
	for i := range costConns {
		var commands [][]byte
		for k := range costBatch * costBatches {
			commands = append(commands, command(nil, words(i, k)...))
		}
		if err := load.dial(l.proxy.addr, inTurn(commands, costBatch), good); err != nil {
			return sample{}, err
		}
	}
	return metered(ctx, &load, costConns*costBatches, l.proxy)
}

func objects(s sample) float64 { return s.objects }

func allocatedBytes(s sample) float64 { return s.bytes }

func printLockCosts(rep *report, r results) {
	t := table{{"", "proxy's CPU µs", "of GET"}}
	for _, what := range []string{"GET", "LOCK", "UNLOCK"} {
		t = append(t, []string{
			what,
			fmt.Sprintf("%.2f", r.median(what, costName, cpu)),
			fmt.Sprintf("%.2f", median(r.ratios(what, costName, "GET", costName, cpu))),
		})
	}
	rep.printf("\n%s\n%d commands of a kind, %d at a time over %d connections, before the cluster. For a\n"+
		"pair the proxy allocates %.1f objects of %.0f bytes together.\n", t, costPhase, costBatch, costConns,
		r.median(costPair, costName, objects), r.median(costPair, costName, allocatedBytes))
	rep.hold(
		atMost(4, "%.1f", "allocations of the proxy, a LOCK + UNLOCK pair", r.spread(costPair, costName,
			objects)),
		atMost(2, "%.2f", "proxy CPU of a LOCK, against a GET, -P 16",
			spreadOf(r.ratios("LOCK", costName, "GET", costName, cpu)...)))
}
