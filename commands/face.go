package commands

import (
	"crypto/sha1"
	"encoding/hex"
	"net"
	"slices"
	"strconv"

	"lockproxy/internal/slot"
)

// Face is how the proxy looks to its clients: like one Redis, or, in cluster mode, like a Redis Cluster
// whose nodes are proxies, each a master of its share of the slots. Every proxy serves all of them.
type Face interface {
	// ClusterMode says that it looks like a cluster.
	ClusterMode() bool
	// Announced are the addresses, host:port, of the proxies that share the slots; the first is this one's, unless the
	// client has reached another of them. None: this proxy alone, at the address that the client has reached.
	Announced() []string
	// Home is the first TCP address, host:port, that it listens on; "" if there is none.
	Home() string
	// Secure says that clients on TCP must use TLS.
	Secure() bool
	// Served is how many slots have a master.
	Served() int
	// ReplicaReads says whose reads go to replicas.
	ReplicaReads() ReplicaReads
	// WatchReplicas says that somebody is going to read from replicas.
	WatchReplicas()
}

// ReplicaReads says which clients' read-only commands go to replicas.
type ReplicaReads uint8

// The choices.
const (
	ReadsOnRequest ReplicaReads = iota // of those that said READONLY
	ReadsAtMaster                      // of nobody
	ReadsPreferred                     // of all but those that said READWRITE
	ReadsAnywhere                      // as ReadsPreferred; the master has its share of them, too
)

// Wanted says whether the reads of a client go to replicas, by its Client.ReadOnly.
func (r ReplicaReads) Wanted(readOnly int8) bool {
	switch r {
	case ReadsAtMaster:
		return false
	case ReadsOnRequest:
		return readOnly > 0
	}
	return readOnly >= 0
}

// peer is a proxy as its clients are to see it: a node of a cluster.
type peer struct {
	host        string
	port        int
	id          string // 40 hex digits, always the same for an address
	first, last int    // slots
	self        bool
}

// peers are the nodes of the cluster that the client is to see, in the order of their slots.
func (c *Call) peers() []peer {
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
		id := sha1.Sum([]byte("lockproxy " + addr))
		host, port, _ := net.SplitHostPort(addr) // without one both are empty
		all[i] = peer{
			host: host, id: hex.EncodeToString(id[:]), self: addr == own,
			first: i * slot.Count / len(addrs), last: (i+1)*slot.Count/len(addrs) - 1,
		}
		all[i].port, _ = strconv.Atoi(port)
	}
	return all
}

// reached is the address under which the client has reached the proxy. One that came over a unix socket is
// on this machine.
func reached(local string, f Face) string {
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

// self is the proxy itself among its peers.
func self(peers []peer) *peer {
	return &peers[slices.IndexFunc(peers, func(p peer) bool { return p.self })]
}

// named is the peer of that id, or nil.
func named(peers []peer, id []byte) *peer {
	if i := slices.IndexFunc(peers, func(p peer) bool { return p.id == string(id) }); i >= 0 {
		return &peers[i]
	}
	return nil
}

// mode is what the proxy looks like, in the words of INFO and HELLO.
func mode(f Face) string {
	if f.ClusterMode() {
		return "cluster"
	}
	return "standalone"
}

// clusterEnabled is the same as a number.
func clusterEnabled(f Face) string {
	if f.ClusterMode() {
		return "1"
	}
	return "0"
}
