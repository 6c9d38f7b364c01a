package cluster

import (
	"net"
	"slices"
	"strings"

	"lockproxy/internal/resp"
)

// A redirect is followed to nodes of the cluster only: clients can make nodes say it, by a script or DEBUG ERROR, and
// who is dialled is given the password. The topology knows the nodes that serve slots; one that is about to get its
// first slot is a member too.

// knows says that addr is that of a node of the cluster, as far as is known. If it is not, it is asked for.
func (p *Pipes) knows(addr string) bool { return knows(p.topology, p.control, addr) }

func knows(t *Topology, control Control, addr string) bool {
	is := func(n *Node) bool { return n.Addr == addr }
	if slices.ContainsFunc(t.Masters, is) || slices.ContainsFunc(t.Replicas, is) {
		return true
	}
	c, ok := control.(interface{ Member(addr string) bool })
	return ok && c.Member(addr)
}

// Member says that addr is that of a node of the cluster, though it may serve no slots. A stranger is asked for
// in the next refresh. It never blocks.
func (u *Upstream) Member(addr string) bool {
	if known := u.members.Load(); known != nil && (*known)[addr] {
		return true
	}
	u.stranger.Store(true)
	return false
}

// parseMembers reads the addresses of a reply of CLUSTER NODES, as node from gave it: in
// each line the second word, "ip:port@busport,hostname", of which older versions have less.
func parseMembers(v resp.Value, from string) map[string]bool {
	members := make(map[string]bool)
	for line := range strings.Lines(v.Text()) {
		words := strings.Fields(line)
		if len(words) < 3 || strings.Contains(words[2], "noaddr") || strings.Contains(words[2], "handshake") {
			continue
		}
		addr, name, _ := strings.Cut(words[1], ",")
		addr, _, _ = strings.Cut(addr, "@")
		colon := strings.LastIndexByte(addr, ':')
		if colon < 0 {
			continue
		}
		host, port := addr[:colon], addr[colon+1:]
		if host == "" {
			host = hostOf(from)
		}
		members[net.JoinHostPort(host, port)] = true
		if name, _, _ = strings.Cut(name, ","); name != "" && !strings.Contains(name, "=") {
			members[net.JoinHostPort(name, port)] = true
		}
	}
	return members
}
