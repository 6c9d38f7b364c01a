package pipe

import (
	"lockproxy/cluster"
	"slices"
)

// A redirect is followed to nodes of the cluster only: clients can make nodes say it, by a script or DEBUG
// ERROR, and who is dialled is given the password. The topology knows the nodes that serve slots; one that is
// about to get its first slot is a member too.

// knows says that addr is that of a node of the cluster, as far as is known. If it is not, it is asked for.
func (p *Pool) knows(addr string) bool { return knows(p.topology, p.control, addr) }

func knows(t *cluster.Topology, control Control, addr string) bool {
	is := func(n *cluster.Node) bool { return n.Addr == addr }
	if slices.ContainsFunc(t.Masters, is) || slices.ContainsFunc(t.Replicas, is) {
		return true
	}
	c, ok := control.(interface{ Member(addr string) bool })
	return ok && c.Member(addr)
}
