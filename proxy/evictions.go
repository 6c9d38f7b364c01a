package proxy

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"lockproxy/cluster"
)

const (
	// memoryLook is how often the masters are asked whether they evict.
	memoryLook = 5 * time.Second
	// memoryGap is the least pause between two such questions, for when the topology changes often.
	memoryGap = 500 * time.Millisecond
)

// evictions are the masters of the upstream that may delete keys by themselves, and so locks that are held.
// The proxy does not start in front of one, unless lock-allow-eviction is set. If a master begins to evict
// while the proxy runs, it gets no new locks until that has ended. Safe for concurrent use.
type evictions struct {
	s     *Server
	moved chan struct{}                    // capacity 1: there is a new topology
	known atomic.Pointer[map[string]error] // why, by address of the master; nil: it does not
	any   atomic.Bool                      // one of them does
}

// first asks all masters. The error says which of them evict. It blocks, but not for long.
func (e *evictions) first(ctx context.Context) error {
	e.moved = make(chan struct{}, 1)
	before := e.look(ctx)
	if err := e.refusal(); err != nil {
		return err
	}
	e.tell(before)
	e.s.upstream.OnChange(func(*cluster.Topology) {
		select {
		case e.moved <- struct{}{}:
		default:
		}
	})
	return nil
}

// keep asks the masters again and again, until s.ctx ends.
func (e *evictions) keep() {
	tick := time.NewTicker(memoryLook)
	defer tick.Stop()
	for {
		select {
		case <-e.s.ctx.Done():
			return
		case <-tick.C:
		case <-e.moved:
		}
		e.tell(e.look(e.s.ctx))
		select {
		case <-e.s.ctx.Done():
			return
		case <-time.After(memoryGap):
		}
	}
}

// look asks the masters once, and returns what was known before. Of those that do not answer, that stays
// known.
func (e *evictions) look(ctx context.Context) (before map[string]error) {
	said := e.s.upstream.Memories(ctx)
	if known := e.known.Load(); known != nil {
		before = *known
	}
	now, some := make(map[string]error), false
	for _, n := range e.s.upstream.Topology().Masters {
		m, answered := said[n.Addr]
		was, met := before[n.Addr]
		switch {
		case answered && m.Policy != "":
			now[n.Addr] = m.Evicts()
		case met:
			now[n.Addr] = was
		}
		some = some || now[n.Addr] != nil
	}
	e.known.Store(&now)
	e.any.Store(some)
	return before
}

// tell logs what has changed since before.
func (e *evictions) tell(before map[string]error) {
	now, locks := *e.known.Load(), "refused"
	if e.s.o.AllowEviction {
		locks = "granted"
	}
	for _, addr := range slices.Sorted(maps.Keys(now)) {
		if now[addr] != nil && before[addr] == nil {
			e.s.o.Log.Warn("node may evict locks", "node", addr, "err", now[addr], "new-locks", locks)
		}
	}
	for _, addr := range slices.Sorted(maps.Keys(before)) {
		if before[addr] != nil && now[addr] == nil {
			e.s.o.Log.Warn("node evicts no locks any more; what it has evicted stays lost", "node", addr)
		}
	}
}

// of says why no new locks may be made at the master of slot; nil: they may be. It never blocks.
func (e *evictions) of(slot int) error {
	if !e.any.Load() || e.s.o.AllowEviction {
		return nil
	}
	n := e.s.upstream.Topology().Slots[slot]
	if n == nil || (*e.known.Load())[n.Addr] == nil {
		return nil
	}
	return cluster.NodeError{Addr: n.Addr, Err: (*e.known.Load())[n.Addr]}
}

// refusal is the reason why new locks are refused, or nil.
func (e *evictions) refusal() error {
	if !e.any.Load() || e.s.o.AllowEviction {
		return nil
	}
	var all []cluster.NodeError
	for addr, err := range *e.known.Load() {
		if err != nil {
			all = append(all, cluster.NodeError{Addr: addr, Err: err})
		}
	}
	slices.SortFunc(all, func(a, b cluster.NodeError) int { return cmp.Compare(a.Addr, b.Addr) })
	if len(all) > 1 {
		return fmt.Errorf("locks: %w; and so do %d more masters", all[0], len(all)-1)
	}
	return fmt.Errorf("locks: %w", all[0])
}

// stats says of each master whether it evicts, as far as that is known.
func (e *evictions) stats() map[string]bool {
	all := make(map[string]bool)
	if known := e.known.Load(); known != nil {
		for addr, err := range *known {
			all[addr] = err != nil
		}
	}
	return all
}
