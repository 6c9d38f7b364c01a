package discovery

import (
	"slices"
	"sync"
	"sync/atomic"

	"lockproxy/cluster"
)

// bulletin has the topology for everybody to see. Safe for concurrent use. Topologies are immutable, so
// readers need no lock: each has the one that it has loaded.
type bulletin struct {
	topology atomic.Pointer[cluster.Topology]

	mu        sync.Mutex // held while a topology is made of the one before, so that none is lost
	listeners []func(*cluster.Topology)
}

// Topology is the latest view of the upstream. It never blocks and is never nil.
func (b *bulletin) Topology() *cluster.Topology { return b.topology.Load() }

// OnChange calls f with each new topology from now on, and with the present one when a master serves again
// that was in trouble. f must not block, and may be called several times at once, so an older topology may
// come behind a newer one: Topology is always the latest.
func (b *bulletin) OnChange(f func(*cluster.Topology)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.listeners = append(b.listeners, f)
}

// changeTopology makes a topology of the one before. It is not new if f returns the same. f must not block;
// no other change comes between what it gets and what it returns. The caller announces what is new, when mu
// is free again.
func (b *bulletin) changeTopology(
	f func(before *cluster.Topology) *cluster.Topology,
) (now *cluster.Topology, is bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	before := b.Topology()
	now = f(before)
	b.topology.Store(now)
	return now, now != before
}

// announce has everybody know that t is the topology, or that masters serve again that did not.
func (b *bulletin) announce(t *cluster.Topology) {
	b.mu.Lock()
	listeners := slices.Clone(b.listeners)
	b.mu.Unlock()
	for _, f := range listeners {
		f(t)
	}
}
