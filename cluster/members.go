package cluster

import (
	"cmp"
	"net"
	"slices"
	"strconv"
	"strings"

	"lockproxy/internal/resp"
)

// What one node says of the others is believed as far as it can be true.
const (
	// MostNodes is how many nodes an upstream has. Redis Cluster is made for up to a thousand.
	MostNodes = 2000
	// MostName is how many bytes the name of a host has (RFC 1035), and more than the id of a node has.
	MostName = 255
)

// AddrOf is where a node is reached that another one calls host. It is not ok if none can be there, and if it
// would be dialled as a unix socket.
func AddrOf(host, port string) (addr string, ok bool) {
	n, err := strconv.ParseUint(port, 10, 16)
	return net.JoinHostPort(host, port),
		err == nil && n > 0 && host != "" && len(host) <= MostName && !strings.HasPrefix(host, "/")
}

// Member is a node of a cluster, as CLUSTER NODES shows it.
type Member struct {
	ID         string
	Host, Port string   // where it is reached; "": that is not known, or nobody can be there
	Name       string   // its host name; "": it has none
	Flags      []string // "myself", "master", "fail?" and others
	Follows    string   // the ID of its master; "-": it has none
	Epoch      string   // of its configuration
	Slots      []string // "7" or "8-11"; the node that was asked also has "[7->-id]"
}

// Is says that the node has the flag.
func (m *Member) Is(flag string) bool { return slices.Contains(m.Flags, flag) }

// Addr is where the node is reached, "" if that is not known.
func (m *Member) Addr() string { return m.at(m.Host) }

// Named is Addr with the host name of the node, "" if it has none.
func (m *Member) Named() string { return m.at(m.Name) }

// at is host with the port of the node, "" if one of both is not known.
func (m *Member) at(host string) string {
	if host == "" || m.Port == "" {
		return ""
	}
	return net.JoinHostPort(host, m.Port)
}

// Members reads a reply to CLUSTER NODES; of an error there are none. A node that does not know its own host
// is at host. Lines that say nothing are left out, as are those behind MostNodes.
//
//	<id> <ip:port@busport[,hostname[,key=value]...]> <flags> <id of the master> <ping> <pong> <epoch> <link>
//	[<slots>...]
//
// Older versions leave out what is behind the port (Redis documentation, CLUSTER NODES).
func Members(reply resp.Value, host string) (all []Member) {
	if reply.IsError() {
		return nil
	}
	for line := range strings.Lines(reply.Text()) {
		words := strings.Fields(line)
		// Eight words stand in front of the slots.
		if len(words) < 8 || len(words[0]) > MostName {
			continue
		}
		m := Member{ID: words[0], Flags: strings.Split(words[2], ","), Follows: words[3], Epoch: words[6],
			Slots: words[8:]}
		addr, name, _ := strings.Cut(words[1], ",")
		addr, _, _ = strings.Cut(addr, "@")
		colon := strings.LastIndexByte(addr, ':') // an IPv6 address has more of them
		if colon >= 0 && !m.Is("noaddr") && !m.Is("handshake") {
			m.Host, m.Port = cmp.Or(addr[:colon], host), addr[colon+1:]
			if _, ok := AddrOf(m.Host, m.Port); !ok {
				m.Host, m.Port = "", ""
			}
		}
		name, _, _ = strings.Cut(name, ",")
		if _, ok := AddrOf(name, m.Port); ok && !strings.Contains(name, "=") {
			m.Name = name
		}
		if all = append(all, m); len(all) == MostNodes {
			break
		}
	}
	return all
}
