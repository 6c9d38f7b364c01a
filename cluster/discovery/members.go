package discovery

import (
	"net"
	"strings"

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

// parseMembers reads the addresses in a reply to CLUSTER NODES from the node at from: how redirects call the
// nodes, and where they are reached. The second word of each line is "ip:port@busport,hostname"; older
// versions leave out the end.
//
// A node that prefers host names says "?:port" of one that has none. Which one it means is known if there is
// only one of that port.
func parseMembers(v resp.Value, from string) map[string]string {
	members := make(map[string]string)
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
		addr = net.JoinHostPort(host, port)
		members[addr] = addr
		if name, _, _ = strings.Cut(name, ","); name != "" && !strings.Contains(name, "=") {
			members[net.JoinHostPort(name, port)] = net.JoinHostPort(name, port)
			continue
		}
		unnamed := net.JoinHostPort("?", port)
		if _, twice := members[unnamed]; twice {
			addr = ""
		}
		members[unnamed] = addr
	}
	return members
}
