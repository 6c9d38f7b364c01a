package discovery

import (
	"errors"
	"net"
	"strconv"
	"strings"
)

// What one node says of the others is believed as far as it can be true.
const (
	// mostNodes is how many nodes an upstream has. Redis Cluster is made for up to a thousand.
	mostNodes = 2000
	// mostName is how many bytes the name of a host has (RFC 1035), and more than the id of a node has.
	mostName = 255
)

// address is where a node is reached that another one calls host. It is not ok if none can be there, and if
// it would be dialled as a unix socket.
func address(host, port string) (addr string, ok bool) {
	n, err := strconv.ParseUint(port, 10, 16)
	return net.JoinHostPort(host, port),
		err == nil && n > 0 && host != "" && len(host) <= mostName && !strings.HasPrefix(host, "/")
}

// credible says whether an upstream can have these nodes.
func credible(shares []share) error {
	seen := make(map[string]bool)
	for _, s := range shares {
		for _, n := range s.nodes {
			if seen[n.Addr] = true; len(seen) > mostNodes || len(n.ID) > mostName {
				return errors.New("it names more nodes than a cluster can have")
			}
		}
	}
	return nil
}
