package discovery

import (
	"net"
	"strings"

	"lockproxy/internal/resp"
)

// Member says that addr is that of a node of the cluster, though it may serve no slots. A stranger is asked
// for in the next refresh. It never blocks.
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
