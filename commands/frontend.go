package commands

// Frontend is how the proxy looks to its clients: like one Redis, or, in cluster mode, like a Redis Cluster
// whose nodes are proxies, each a master of its share of the slots. Every proxy serves all of them.
type Frontend interface {
	// ClusterMode says that it looks like a cluster.
	ClusterMode() bool
	// Announced are the addresses, host:port, of the proxies that share the slots. The first is that of this
	// proxy, unless the client is connected to another one. None: there is this proxy alone, at the address
	// that the client is connected to.
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
	ReadsSameZone                      // as ReadsPreferred, from replicas in the proxy's zone alone
)

// Asked says that no client reads from replicas unless it asks for that.
func (r ReplicaReads) Asked() bool { return r == ReadsOnRequest || r == ReadsAtMaster }

// Wanted says whether the reads of a client with this Client.ReadOnly go to replicas.
func (r ReplicaReads) Wanted(readOnly int8) bool {
	switch r {
	case ReadsAtMaster:
		return false
	case ReadsOnRequest:
		return readOnly > 0
	}
	return readOnly >= 0
}

// ModeName is what the proxy looks like, in the words of INFO and HELLO.
func ModeName(f Frontend) string {
	if f.ClusterMode() {
		return "cluster"
	}
	return "standalone"
}
