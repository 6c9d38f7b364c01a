package discovery

import (
	"cmp"
	"net"
	"slices"
	"strconv"

	"lockproxy/cluster"
	"lockproxy/internal/resp"
)

// Member is where the node of the cluster is reached that a redirect calls addr, even if it serves no slots;
// "" if none is known. Then the next refresh asks for it. It never blocks.
func (u *Upstream) Member(addr string) (at string) {
	if known := u.members.Load(); known != nil {
		at = (*known)[addr]
	}
	if at == "" {
		u.stranger.Store(true)
	}
	return at
}

// addressesOf are how redirects call the nodes of a cluster, and where those are reached.
//
// A node that prefers host names says "?:port" of one that has none. Which one it means is known if there is
// only one of that port. A node is known by its address and by its host name: a redirect has the one that the
// node which redirects prefers.
func addressesOf(all []cluster.Member) map[string]string {
	known := make(map[string]string)
	for _, m := range all {
		addr := m.Addr()
		if addr == "" {
			continue
		}
		known[addr] = addr
		if named := m.Named(); named != "" {
			known[named] = named
			continue
		}
		unnamed := net.JoinHostPort("?", m.Port)
		// "" stays for a third one: nobody can tell them apart.
		if _, twice := known[unnamed]; twice {
			addr = ""
		}
		known[unnamed] = addr
	}
	return known
}

// hidesNodes says that a node knows of more nodes, by its CLUSTER INFO, than its CLUSTER SLOTS has shown. It
// does not show replicas of which it has not heard an offset yet, as in the first seconds of a cluster.
func hidesNodes(info resp.Value, shares []share) bool {
	// 0, and nothing is hidden, where the node does not tell
	known, _ := strconv.Atoi(cluster.Field(info, "cluster_known_nodes"))
	shown := make(map[string]bool)
	for _, s := range shares {
		for _, n := range s.nodes {
			shown[n.Addr] = true
		}
	}
	return known > len(shown)
}

// addHidden adds to shares the replicas among all that are not there. Each is called as its master is: by its
// host name, by its address, or by the host that was asked. Whether they may be
// read from is asked of themselves (readers.go).
func addHidden(shares []share, all []cluster.Member) {
	byID := make(map[string]cluster.Member)
	for _, m := range all {
		byID[m.ID] = m
	}
	for i, s := range shares {
		master := s.nodes[0]
		host := hostOf(master.Addr)
		for _, m := range all {
			if m.Follows != master.ID || m.Port == "" || m.Is("fail") ||
				slices.ContainsFunc(s.nodes, func(n cluster.Node) bool { return n.ID == m.ID }) {
				continue
			}
			at := host
			switch host {
			case byID[master.ID].Name:
				at = cmp.Or(m.Name, m.Host)
			case byID[master.ID].Host:
				at = m.Host
			}
			shares[i].nodes = append(shares[i].nodes,
				cluster.Node{Addr: net.JoinHostPort(at, m.Port), ID: m.ID})
		}
	}
}

// failingOf is which masters are called failing, by id: "fail?" by the node that was asked alone, "fail" by
// most masters.
func failingOf(all []cluster.Member) map[string]bool {
	ids := make(map[string]bool)
	for _, m := range all {
		if m.Is("master") && (m.Is("fail?") || m.Is("fail")) {
			ids[m.ID] = true
		}
	}
	return ids
}
