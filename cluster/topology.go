// Package cluster is what the proxy knows of its upstream: a Redis Cluster, a group with Sentinels, or one
// Redis. The packages below this folder reach it:
//
//	discovery   finds the nodes and keeps the Topology fresh        the control plane, over go-redis
//	pipe        carries requests of clients to nodes                the data plane, on the proxy's loops
//	pubsub      subscribes at nodes for all clients together        goroutines of its own
//	master      is one of the masters of RedLock, with its health   on a loop, with looks beside it
//	retry       says what an error reply means for the request
//
// They do not know each other, but for master, which asks by pipe and listens by pubsub. What they have in
// common is here:
//
//	Topology    one consistent view of the upstream: its Nodes, and which master serves which slot
//	Dialer      opens a connection to a node: TLS, login, Mode, and the end of the one before it (Identity)
//	NodeError   what went wrong with a node, and what may help
//	Server      what a server says of itself
//
// The path through it: discovery publishes a Topology; a loop takes it over in pipe.Pool.Update; a request
// for a slot goes to the master that Topology.Slots names; its pipe is made by a Dialer when first needed.
package cluster

import (
	"net"
	"net/netip"
	"slices"
	"strconv"

	"lockproxy/internal/slot"
)

// Named says that the host of addr is a name, which may lead to another node tomorrow.
func Named(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil { // a unix socket
		return false
	}
	_, err = netip.ParseAddr(host)
	return err != nil
}

// Kind is what the upstream turned out to be.
type Kind uint8

// The kinds.
const (
	Single Kind = iota
	Sentinel
	Cluster
)

// String is "single", "sentinel" or "cluster".
func (k Kind) String() string { return [...]string{"single", "sentinel", "cluster"}[k] }

// Node is one Redis server of the upstream. Immutable. The pointer stays the same in later topologies as long
// as no field changes, so it may be a key.
type Node struct {
	Addr    string // host:port, as the proxy dials it, or the path of a unix socket
	ID      string // node id of a cluster, else ""
	Master  bool
	Follows string // Addr of its master; of a master ""
}

// Topology is one consistent view of the upstream. Immutable.
type Topology struct {
	Version  uint64 // rises with each change; 0: nothing is known yet
	Kind     Kind
	Server   Server            // all masters, by Server.With
	Masters  []*Node           // in the order of their lowest slots
	Replicas []*Node           // in the order of their addresses
	Slots    [slot.Count]*Node // its master; nil: nobody serves the slot

	// Readers are the replicas of each master that may be read from, as far as is known; nil until a client
	// wants that. They change without a new Version.
	Readers map[*Node][]*Node
}

// Nodes are the masters and the replicas.
func (t *Topology) Nodes() []*Node { return slices.Concat(t.Masters, t.Replicas) }

// Master is the master at addr, nil if there is none.
func (t *Topology) Master(addr string) *Node {
	for _, n := range t.Masters {
		if n.Addr == addr {
			return n
		}
	}
	return nil
}

// Served is how many slots have a master.
func (t *Topology) Served() int {
	n := 0
	for _, master := range t.Slots {
		if master != nil {
			n++
		}
	}
	return n
}

// SlotsOf are the slots whose master is n, as ranges: "0-5460,7000". nil: those that have none.
func (t *Topology) SlotsOf(n *Node) string {
	var text []byte
	for first := 0; first < slot.Count; first++ {
		if t.Slots[first] != n {
			continue
		}
		last := first
		for last+1 < slot.Count && t.Slots[last+1] == n {
			last++
		}
		if len(text) > 0 {
			text = append(text, ',')
		}
		if text = strconv.AppendInt(text, int64(first), 10); last > first {
			text = strconv.AppendInt(append(text, '-'), int64(last), 10)
		}
		first = last
	}
	return string(text)
}

// Same says that nothing but the Version and the Readers differs. Nodes are compared by their pointers.
func (t *Topology) Same(u *Topology) bool {
	return t.Kind == u.Kind && t.Server == u.Server && t.Slots == u.Slots &&
		slices.Equal(t.Masters, u.Masters) && slices.Equal(t.Replicas, u.Replicas)
}

// MaxShared is how many bytes a request may have to go over a connection that clients share. Neither
// client-query-buffer-limit nor proto-max-bulk-len of a server can be set lower, so no shared request breaks
// one of them, and no client waits long behind the bytes of another.
const MaxShared = 1 << 20
