package pipe

import (
	"slices"

	"lockproxy/cluster"
	"lockproxy/internal/slot"
)

// routing is which node a request goes to: the topology that a loop goes by, and what is worked out of it.
type routing struct {
	topology *cluster.Topology
	index    [slot.Count]int16 // the number of the master of each slot, or -1
	lowest   []int             // slots: the lowest of each master that has any
	turn     int               // round robin over masters
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

// choose is the number of the master of slot n; below 0: of any in turn. It is -1 if there is none.
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

// Version identifies the topology that routes requests now. It changes when a
// later request may go to another node than an earlier one for the same slot.
func (r *routing) Version() uint64 { return r.topology.Version }

// Topology is the topology that routes requests now.
func (r *routing) Topology() *cluster.Topology { return r.topology }

// SomeSlot is a slot that has a master, and for one seed the same for as long as
// the topology stays; AnySlot if there is none.
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

// lost are the addresses of the nodes that had slots in before which they have no more.
func (r *routing) lost(before *cluster.Topology) map[string]bool {
	from := make(map[string]bool)
	for s, node := range before.Slots {
		if now := r.topology.Slots[s]; node != nil && (now == nil || now.Addr != node.Addr) {
			from[node.Addr] = true
		}
	}
	return from
}

// knows says that addr is that of a node of the cluster, as far as is known; if it is not, control asks for
// it. A redirect is followed to nodes of the cluster only: clients can make nodes say it, by a script or
// DEBUG ERROR, and who is dialled is given the password. The topology knows the nodes that serve slots; one
// that is about to get its first slot is a member too.
func (r *routing) knows(addr string, control Control) bool {
	is := func(n *cluster.Node) bool { return n.Addr == addr }
	if slices.ContainsFunc(r.topology.Masters, is) || slices.ContainsFunc(r.topology.Replicas, is) {
		return true
	}
	c, ok := control.(interface{ Member(addr string) bool })
	return ok && c.Member(addr)
}
