package masters

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"slices"
	"sync/atomic"
	"time"

	"lockproxy/cluster"
	"lockproxy/internal/sleep"
)

const (
	// memoryLook is how often the masters are asked whether they evict. So long new locks may be granted at a
	// master that has begun to evict, and to be refused at one that has ended it.
	memoryLook = 5 * time.Second
	// memoryGap is the least pause between two such questions, for when the topology changes often.
	memoryGap = 500 * time.Millisecond
)

// Upstream is what there is to be asked; *discovery.Upstream implements it. Safe for concurrent use.
type Upstream interface {
	Topology() *cluster.Topology
	// Dial returns a connection to a node that is ready for requests.
	Dial(ctx context.Context, addr string, m cluster.Mode, before *cluster.Identity) (net.Conn, error)
	// OnChange registers f, which is called with each new topology and must not block.
	OnChange(f func(*cluster.Topology))
	// Memories is what the masters say of their memory, by address. Those that do not answer are left out.
	Memories(ctx context.Context) map[string]cluster.Memory
}

// Evictions are the masters of the upstream that may delete keys by themselves, and so locks that are held.
// The proxy does not start in front of one, unless lock-allow-eviction is set. If a master begins to evict
// while the proxy runs, it gets no new locks until that has ended. Safe for concurrent use.
type Evictions struct {
	Upstream Upstream
	Allowed  bool // locks are kept at such masters
	Log      *slog.Logger

	moved chan struct{} // capacity 1: there is a new topology
	// known has an entry for each present master that has ever answered; the map is never changed, only
	// replaced. Only the goroutine of First and then Keep stores it. Loops read any first, which is all that
	// they pay where nobody evicts.
	known atomic.Pointer[map[string]error] // why, by address of the master; nil: it does not
	any   atomic.Bool                      // one of them does
}

// First asks all masters. The error says which of them evict. It blocks, but not for long. It is called once,
// before Keep and before anybody else.
func (e *Evictions) First(ctx context.Context) error {
	e.moved = make(chan struct{}, 1)
	before := e.askMemories(ctx)
	if err := e.Refusal(); err != nil {
		return err
	}
	e.logChanges(before)
	e.Upstream.OnChange(func(*cluster.Topology) {
		select {
		case e.moved <- struct{}{}:
		default:
		}
	})
	return nil
}

// Keep asks the masters again and again, until ctx ends. It blocks, on a goroutine of its own.
func (e *Evictions) Keep(ctx context.Context) {
	tick := time.NewTicker(memoryLook)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-e.moved:
		}
		e.logChanges(e.askMemories(ctx))
		if !sleep.For(ctx, memoryGap) {
			return
		}
	}
}

// askMemories asks the masters once, and returns what was known before. Of those that do not answer, that
// stays known. A master that has never answered is taken for one that does not evict.
func (e *Evictions) askMemories(ctx context.Context) (before map[string]error) {
	said := e.Upstream.Memories(ctx)
	if known := e.known.Load(); known != nil {
		before = *known
	}
	now, some := make(map[string]error), false
	for _, n := range e.Upstream.Topology().Masters {
		m, answered := said[n.Addr]
		was, met := before[n.Addr]
		switch {
		// An empty policy: INFO did not tell, so as much is known as before.
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

// logChanges logs what has changed since before. Each change is one line, by address, however often the
// masters are asked.
func (e *Evictions) logChanges(before map[string]error) {
	now, locks := *e.known.Load(), "refused"
	if e.Allowed {
		locks = "granted"
	}
	for _, addr := range slices.Sorted(maps.Keys(now)) {
		if now[addr] != nil && before[addr] == nil {
			e.Log.Warn("node may evict locks", "node", addr, "err", now[addr], "new-locks", locks)
		}
	}
	for _, addr := range slices.Sorted(maps.Keys(before)) {
		if before[addr] != nil && now[addr] == nil {
			e.Log.Warn("node evicts no locks any more; what it has evicted stays lost", "node", addr)
		}
	}
}

// Any says that one of them evicts.
func (e *Evictions) Any() bool { return e.any.Load() }

// Of says why no new locks may be made at the master of slot; nil: they may be. It never blocks. It is asked
// for each new lock, on the loop.
func (e *Evictions) Of(slot int) error {
	if !e.any.Load() || e.Allowed {
		return nil
	}
	known := *e.known.Load() // read once: another map may come at any time
	if n := e.Upstream.Topology().Slots[slot]; n != nil && known[n.Addr] != nil {
		return cluster.NodeError{Addr: n.Addr, Err: known[n.Addr]}
	}
	return nil
}

// Refusal is the reason why new locks are refused, or nil. It names the first by address, so that the text
// stays the same while nothing changes.
func (e *Evictions) Refusal() error {
	if !e.any.Load() || e.Allowed {
		return nil
	}
	known := *e.known.Load()
	all := slices.Sorted(maps.Keys(known))
	all = slices.DeleteFunc(all, func(addr string) bool { return known[addr] == nil })
	if len(all) == 0 { // the masters have answered since any was read
		return nil
	}
	first := cluster.NodeError{Addr: all[0], Err: known[all[0]]}
	if len(all) > 1 {
		return fmt.Errorf("locks: %w; and so do %d more masters", first, len(all)-1)
	}
	return fmt.Errorf("locks: %w", first)
}

// Stats says of each master whether it evicts, as far as that is known.
func (e *Evictions) Stats() map[string]bool {
	all := make(map[string]bool)
	if known := e.known.Load(); known != nil {
		for addr, err := range *known {
			all[addr] = err != nil
		}
	}
	return all
}
