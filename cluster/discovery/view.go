package discovery

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"lockproxy/cluster"
)

// view is what one node says about the whole upstream.
type view struct {
	kind   cluster.Kind
	from   string  // the node that says so
	self   string  // its id, or its address if it does not tell that
	ok     bool    // that node says that the cluster works, and it is part of it
	epoch  uint64  // cluster_current_epoch, which rises with each fail-over; 0 outside of a cluster
	shares []share // they do not overlap; slots without a master are in none

	// Of a node of a cluster:
	server  cluster.Server   // that node
	members []cluster.Member // all that it knows of; nil: it was not asked
}

// share is a range of slots with the nodes that have it, the master first.
type share struct {
	first, last int
	nodes       []cluster.Node
}

// credible says whether an upstream can have these nodes. Addresses and ids come from a node, and are kept
// for as long as the topology lasts.
func credible(shares []share) error {
	seen := make(map[string]bool)
	for _, s := range shares {
		for _, n := range s.nodes {
			if seen[n.Addr] = true; len(seen) > cluster.MostNodes || len(n.ID) > cluster.MostName {
				return errors.New("it names more nodes than a cluster can have")
			}
		}
	}
	return nil
}

// served is how many slots have a master in v.
func (v *view) served() int {
	n := 0
	for _, s := range v.shares {
		n += s.last - s.first + 1
	}
	return n
}

// topology makes a Topology of v. Parts that have not changed keep the pointers of old: each Node, and the
// whole if nothing differs.
func (v *view) topology(old *cluster.Topology, server cluster.Server) *cluster.Topology {
	t := &cluster.Topology{Version: old.Version + 1, Kind: v.kind, Server: server}
	known := make(map[cluster.Node]*cluster.Node)
	for _, n := range old.Nodes() {
		known[*n] = n
	}
	// It finds the Node that equals n among the old ones, or makes it, and lists it once: a master of several
	// ranges comes several times.
	intern := func(n cluster.Node, list *[]*cluster.Node, listed map[*cluster.Node]bool) *cluster.Node {
		p := known[n]
		if p == nil {
			p = &n
			known[n] = p
		}
		if !listed[p] {
			listed[p] = true
			*list = append(*list, p)
		}
		return p
	}
	listed := make(map[*cluster.Node]bool)
	shares := slices.Clone(v.shares)
	// so masters come in the order of their lowest slots
	slices.SortFunc(shares, func(a, b share) int { return a.first - b.first })
	for _, s := range shares {
		for i, n := range s.nodes {
			n.Master = i == 0
			if i > 0 {
				n.Follows = s.nodes[0].Addr
				intern(n, &t.Replicas, listed)
				continue
			}
			master := intern(n, &t.Masters, listed)
			for k := s.first; k <= s.last; k++ {
				t.Slots[k] = master
			}
		}
	}
	slices.SortFunc(t.Replicas, func(a, b *cluster.Node) int { return cmp.Compare(a.Addr, b.Addr) })
	// The same pointer says that nothing has changed, for whoever compares.
	if old.Same(t) {
		return old
	}
	return t
}

// related says that v contains a node of t, or that t has none. Nodes are known by their ids here: an address
// may be that of another node by now.
func (v *view) related(t *cluster.Topology) bool {
	known := make(map[string]bool)
	for _, n := range t.Nodes() {
		known[n.ID] = true
	}
	for _, s := range v.shares {
		for _, n := range s.nodes {
			if known[n.ID] {
				return true
			}
		}
	}
	return len(known) == 0
}

// trusts says that v may be believed. An address that was only learnt may belong to a node of another
// cluster by now.
func (u *Upstream) trusts(v *view) bool {
	return v.related(u.Topology()) || slices.Contains(u.o.Addrs, v.from)
}

// promoted says that v comes from a node that has taken the place of its master, which is in trouble: nobody
// knows that earlier, and others may say for a moment what was before. t is the topology so far.
func (v *view) promoted(t *cluster.Topology, trouble map[string]time.Time) bool {
	for _, s := range v.shares {
		master, before := s.nodes[0], t.Slots[s.first]
		// only what it says of its own slots, and only of those whose master is in trouble
		if v.self != master.ID && v.self != master.Addr || before == nil || trouble[before.Addr].IsZero() {
			continue
		}
		if slices.ContainsFunc(t.Replicas, func(n *cluster.Node) bool {
			return n.Addr == master.Addr && n.Follows == before.Addr
		}) {
			return true
		}
	}
	return false
}

// best is the view to use after t: of the same cluster if there is one; of a replica that has just taken over
// from a master in trouble; with masters for the most slots; from a node that is not cut off; of the highest
// epoch; and what most nodes say. views has one at least. Each rule decides only where those before it leave
// a tie.
func best(views []*view, t *cluster.Topology, trouble map[string]time.Time) *view {
	votes := make(map[string]int)
	for _, v := range views {
		votes[v.ballot()]++
	}
	return slices.MaxFunc(views, func(a, b *view) int {
		return cmp.Or(
			compareBool(a.related(t), b.related(t)),
			compareBool(a.promoted(t, trouble), b.promoted(t, trouble)),
			cmp.Compare(a.served(), b.served()),
			compareBool(a.ok, b.ok),
			cmp.Compare(a.epoch, b.epoch),
			cmp.Compare(votes[a.ballot()], votes[b.ballot()]),
		)
	})
}

// compareBool is cmp.Compare, with false before true.
func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

// ballot is a text that is equal for views that give the slots to the same masters, however their ranges are
// cut. It names them by their ids, for nodes may be known by several addresses.
func (v *view) ballot() string {
	shares := slices.Clone(v.shares)
	slices.SortFunc(shares, func(a, b share) int { return cmp.Compare(a.first, b.first) })
	var text []byte
	for i, s := range shares {
		switch {
		case i == 0:
		case s.first == shares[i-1].last+1 && s.nodes[0].ID == shares[i-1].nodes[0].ID:
			continue
		// A gap is told, or views with and without a master there would be equal.
		case s.first > shares[i-1].last+1:
			text = fmt.Appendf(text, "%d nobody,", shares[i-1].last+1)
		}
		text = fmt.Appendf(text, "%d %s,", s.first, s.nodes[0].ID)
	}
	if n := len(shares); n > 0 {
		text = fmt.Appendf(text, "%d end", shares[n-1].last+1)
	}
	return string(text)
}
