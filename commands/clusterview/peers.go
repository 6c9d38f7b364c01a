package clusterview

import (
	"crypto/sha1"
	"encoding/hex"
	"net"
	"slices"
	"strconv"

	"lockproxy/commands"
	"lockproxy/internal/slot"
)

// peer is a proxy as its clients see it: a node of a cluster. They are made anew for each command, of the
// settings alone: no proxy asks another.
type peer struct {
	host        string
	port        int
	id          string // 40 hex digits, always the same for an address
	first, last int    // slots
	self        bool
}

// peers returns the nodes of the cluster that the client sees, in the order of their slots. The one that the
// client is connected to is self, even if it is not the first of the setting. A client that came to an
// address which is not announced, as behind a load balancer, is at the first of the setting. Each has slots
// from first to last, inclusive.
func peers(c *commands.Call) []peer {
	addrs := c.Server.Announced()
	own := reached(c.Client.LocalAddr, c.Server)
	switch {
	case len(addrs) == 0:
		addrs = []string{own}
	case !slices.Contains(addrs, own):
		own = addrs[0]
	}
	addrs = slices.Sorted(slices.Values(addrs)) // the same shares at every proxy
	all := make([]peer, len(addrs))
	for i, addr := range addrs {
		// A node id of Redis is as long. All proxies make the same of an address, without asking each other.
		id := sha1.Sum([]byte("lockproxy " + addr))
		host, port, _ := net.SplitHostPort(addr) // without a port both are empty
		all[i] = peer{
			host: host, id: hex.EncodeToString(id[:]), self: addr == own,
			first: i * slot.Count / len(addrs), last: (i+1)*slot.Count/len(addrs) - 1,
		}
		all[i].port, _ = strconv.Atoi(port)
	}
	return all
}

// reached is the address under which the client reached the proxy. A client that came over a unix socket is
// on this machine. The host of a proxy that listens on all addresses is none that a client could use.
func reached(local string, f commands.Frontend) string {
	if _, _, err := net.SplitHostPort(local); err == nil {
		return local
	}
	home := f.Home()
	host, port, err := net.SplitHostPort(home)
	if ip := net.ParseIP(host); err == nil && (host == "" || ip != nil && ip.IsUnspecified()) {
		return net.JoinHostPort("127.0.0.1", port)
	}
	return home
}

// self is the proxy itself among its peers. There always is one: see peers.
func self(peers []peer) *peer {
	return &peers[slices.IndexFunc(peers, func(p peer) bool { return p.self })]
}
