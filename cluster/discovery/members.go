package discovery

import (
	"cmp"
	"net"
	"slices"
	"strconv"
	"strings"

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

// clusterMember is a node as CLUSTER NODES shows it.
type clusterMember struct {
	id, host, port string // port "": its address is not known
	name           string // its host name; "": it has none
	flags          []string
	follows        string // the id of its master; "-": it has none
}

// parseNodes reads a reply to CLUSTER NODES from the node at from. The second word of each line is
// "ip:port@busport,hostname"; older versions leave out the end.
func parseNodes(v resp.Value, from string) []clusterMember {
	var all []clusterMember
	for line := range strings.Lines(v.Text()) {
		words := strings.Fields(line)
		if len(words) < 4 || len(words[0]) > mostName {
			continue
		}
		m := clusterMember{id: words[0], flags: strings.Split(words[2], ","), follows: words[3]}
		addr, name, _ := strings.Cut(words[1], ",")
		addr, _, _ = strings.Cut(addr, "@")
		if colon := strings.LastIndexByte(addr, ':'); colon >= 0 && !slices.Contains(m.flags, "noaddr") &&
			!slices.Contains(m.flags, "handshake") {
			m.host, m.port = cmp.Or(addr[:colon], hostOf(from)), addr[colon+1:]
			if _, ok := address(m.host, m.port); !ok {
				continue
			}
		}
		if name, _, _ = strings.Cut(name, ","); !strings.Contains(name, "=") && len(name) <= mostName {
			m.name = name
		}
		if all = append(all, m); len(all) == mostNodes {
			break
		}
	}
	return all
}

// parseMembers reads the addresses in a reply to CLUSTER NODES from the node at from: how redirects call the
// nodes, and where they are reached.
//
// A node that prefers host names says "?:port" of one that has none. Which one it means is known if there is
// only one of that port.
func parseMembers(v resp.Value, from string) map[string]string {
	members := make(map[string]string)
	for _, m := range parseNodes(v, from) {
		if m.port == "" {
			continue
		}
		addr := net.JoinHostPort(m.host, m.port)
		members[addr] = addr
		if m.name != "" {
			members[net.JoinHostPort(m.name, m.port)] = net.JoinHostPort(m.name, m.port)
			continue
		}
		unnamed := net.JoinHostPort("?", m.port)
		if _, twice := members[unnamed]; twice {
			addr = ""
		}
		members[unnamed] = addr
	}
	return members
}

// hidesNodes says that a node knows of more nodes, by its CLUSTER INFO, than its CLUSTER SLOTS has shown. It
// does not show replicas of which it has not heard an offset yet, as in the first seconds of a cluster.
func hidesNodes(info resp.Value, shares []share) bool {
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
// host name, by its address, or by the host that was asked.
func addHidden(shares []share, all []clusterMember) {
	byID := make(map[string]clusterMember)
	for _, m := range all {
		byID[m.id] = m
	}
	for i, s := range shares {
		master := s.nodes[0]
		host := hostOf(master.Addr)
		for _, m := range all {
			if m.follows != master.ID || m.port == "" || slices.Contains(m.flags, "fail") ||
				slices.ContainsFunc(s.nodes, func(n cluster.Node) bool { return n.ID == m.id }) {
				continue
			}
			at := host
			switch host {
			case byID[master.ID].name:
				at = cmp.Or(m.name, m.host)
			case byID[master.ID].host:
				at = m.host
			}
			shares[i].nodes = append(shares[i].nodes,
				cluster.Node{Addr: net.JoinHostPort(at, m.port), ID: m.id})
		}
	}
}

// parseFailing reads which masters a reply to CLUSTER NODES calls failing, by id.
func parseFailing(v resp.Value) map[string]bool {
	ids := make(map[string]bool)
	for _, m := range parseNodes(v, "") {
		if slices.Contains(m.flags, "master") &&
			(slices.Contains(m.flags, "fail?") || slices.Contains(m.flags, "fail")) {
			ids[m.id] = true
		}
	}
	return ids
}
