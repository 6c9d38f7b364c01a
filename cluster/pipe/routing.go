package pipe

import (
	"slices"

	"lockproxy/cluster"
	"lockproxy/internal/slot"
)

// routing decides which node a request goes to: the topology of a loop, and what is computed from it.
type routing struct {
	*env
	topology *cluster.Topology
	index    [slot.Count]int16 // the number of the master of each slot, or -1
	lowest   []int             // slots: the lowest of each master that has any
	turn     int               // round robin over masters
	redials  uint64            // how often later requests got another connection than earlier ones
}

// follow takes over a topology.
func (r *routing) follow(t *cluster.Topology) {
	r.topology = t
	at := make(map[*cluster.Node]int16, len(t.Masters))
	for i, n := range t.Masters {
		at[n] = int16(i)
	}
	r.lowest = r.lowest[:0]
	seen := make(map[int16]bool)
	for s := range r.index {
		r.index[s] = -1
		if i, ok := at[t.Slots[s]]; ok {
			r.index[s] = i
			if !seen[i] {
				seen[i] = true
				r.lowest = append(r.lowest, s)
			}
		}
	}
}

// choose is the number of the master of slot n; if n is negative, that of any master in turn; -1 if there is
// none.
func (r *routing) choose(n int) int {
	switch {
	case n >= 0:
		return int(r.index[n])
	case len(r.topology.Masters) > 0:
		r.turn++
		return r.turn % len(r.topology.Masters)
	}
	return -1
}

// Version changes when a later request may go to another node than an earlier one for the same slot, or over
// another connection.
func (r *routing) Version() uint64 { return r.topology.Version + r.redials }

// Topology is the topology that routes requests now.
func (r *routing) Topology() *cluster.Topology { return r.topology }

// SomeSlot is a slot that has a master; AnySlot if there is none. The same seed gives the same slot as long
// as the topology stays.
func (r *routing) SomeSlot(seed int64) int {
	if len(r.lowest) == 0 {
		return anySlot
	}
	return r.lowest[uint64(seed)%uint64(len(r.lowest))]
}

// SlotAt is the lowest slot of the master at addr, AnySlot if there is no such master.
func (r *routing) SlotAt(addr string) int {
	for _, s := range r.lowest {
		if r.topology.Masters[r.index[s]].Addr == addr {
			return s
		}
	}
	return anySlot
}

// Owner is the number of the master of slot n among Topology().Masters, -1 if there is none.
func (r *routing) Owner(n int) int { return int(r.index[n]) }

// MasterOf is the address of the master of slot n (AnySlot: of any), "" if there is none.
func (r *routing) MasterOf(n int) string {
	i := r.choose(n)
	if i < 0 {
		return ""
	}
	return r.topology.Masters[i].Addr
}

// lost are the addresses of nodes that had slots in before and have lost some of them.
func (r *routing) lost(before *cluster.Topology) map[string]bool {
	from := make(map[string]bool)
	for s, node := range before.Slots {
		if now := r.topology.Slots[s]; node != nil && (now == nil || now.Addr != node.Addr) {
			from[node.Addr] = true
		}
	}
	return from
}

// member is where the node is reached that a redirect calls addr; "" if no node of the cluster is known by
// that. Then control asks for it. Redirects are followed to nodes of the cluster only: clients can make nodes
// send a redirect, by a script or DEBUG ERROR, and whoever is dialled gets the password. The topology has the
// nodes that serve slots; a node that is about to get its first slot is a member too.
func (r *routing) member(addr string) (at string) {
	is := func(n *cluster.Node) bool { return n.Addr == addr }
	if slices.ContainsFunc(r.topology.Masters, is) || slices.ContainsFunc(r.topology.Replicas, is) {
		return addr
	}
	if c, ok := r.control.(interface{ Member(addr string) string }); ok {
		return c.Member(addr)
	}
	return ""
}
