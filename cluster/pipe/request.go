package pipe

import (
	"lockproxy/cluster"
	"lockproxy/cluster/pipe/owned"
)

// Target says which node a request goes to. The zero value: any master.
type Target struct {
	kind targetKind
	n    int32
	addr string
}

type targetKind uint8

const (
	toAny targetKind = iota
	toSlot
	toMaster
	toShard
	toNode
)

// ToSlot is the master of slot n, or any master if n is negative.
func ToSlot(n int) Target { return Target{kind: toSlot, n: int32(n)} }

// ToMaster is the i-th of Topology().Masters and no other node; any master if there are fewer.
func ToMaster(i int) Target { return Target{kind: toMaster, n: int32(i)} }

// ToShard is the i-th of Topology().Masters; if that fails, the node that has taken its place. It is for
// requests without keys.
func ToShard(i int) Target { return Target{kind: toShard, n: int32(i)} }

// ToNode is the node at addr and no other, whether it is a master or not.
func ToNode(addr string) Target { return Target{kind: toNode, addr: addr} }

// Any says that t is not a particular node.
func (t Target) Any() bool { return t.kind == toAny || t.kind == toSlot && t.n < 0 }

// Readers says which nodes may answer a request to a slot.
type Readers uint8

const (
	MasterOnly    Readers = iota
	ReplicasFirst         // a replica that is fit, or the master if there is none; the request only reads
	AllReaders            // the same, but the master has its share of the reads too
)

// Request is one whole command and how it is sent.
type Request struct {
	Target Target
	Mode   Mode   // of the connection
	Bytes  []byte // copied, unless Kept is set or they are more than loop.Shared
	Kept   bool   // nobody writes to Bytes any more; what lies side by side in memory is written together
	To     Receiver
	Tag    uint32 // under which To gets the reply
	Resend bool   // the command may run twice, so it is sent again when its reply was lost
	Splits bool   // To gets TRYAGAIN at once, and asks for one key at a time then
	Script bool   // it may be an EVALSHA, so its script is loaded ahead where that may be missing

	Readers Readers
	Seed    int64 // chooses among the readers; the choice stays while the reader is fit
}

// Chooser is a Receiver that chooses what becomes of a long reply. A shared pipe cannot wait for a client
// that reads slowly. So the long replies of a client come over connections of its own, from which no more is
// read while the client takes nothing. Before a reply begins nobody knows how long it is:
//
//	shared pipe: "$16777216\r\n..." --> Chooser.Apart --> the request again, over a Private
//	                       \----> the rest of that reply is dropped
type Chooser interface {
	Receiver
	// Apart is told how long the reply to request tag is, which begins to come over a shared pipe. If it
	// returns true, the reply is dropped, and the request is sent again, over connections of mode m.
	Apart(tag uint32, size int) (m Mode, again bool)
}

// Mode is the state that a connection to a node is put into before its first request, and whether one client
// has it to itself.
type Mode struct {
	Proto   int  // 2 or 3
	DB      int  // the database; 0 in a cluster
	Replica bool // reads at a replica: in a cluster READONLY was sent
	// Second is for a second connection of the same kind, used while a script keeps the first one busy; see
	// Pool.StuckEpoch.
	Second bool
	Own    *owned.Set // of the client that has the connection to itself; nil: it is shared
}

// ModeOf is the mode of requests that go over the connections of a client.
func ModeOf(s *owned.Set) Mode { return Mode{Proto: s.Mode().Proto, DB: s.Mode().DB, Own: s} }

// plain says that m is the mode of nearly all requests: database 0, at a master, over the first shared
// connection.
func (m Mode) plain() bool { return m.DB == 0 && !m.Replica && !m.Second && m.Own == nil }

// before says what goes in front of a request that is sent now.
func (m Mode) before() before {
	if m.Own != nil && m.Own.Precedes() {
		return sayPrivate
	}
	return nothing
}

// again is m for a request that is sent once more: at a master, and behind a script if one is running. If
// two requests of one client used second pipes, they would not stay in order when a script began or ended
// between them.
func (m Mode) again() Mode {
	m.Replica, m.Second = false, false
	return m
}

// dialled is the part of m that a connection is put into before its first request.
func (m Mode) dialled() cluster.Mode {
	d := cluster.Mode{Proto: m.Proto, DB: m.DB, Replica: m.Replica}
	if m.Own != nil {
		d.As = m.Own.Mode().As
	}
	return d
}

// nodeKey is where a pipe leads to, and in which mode.
type nodeKey struct {
	addr string
	mode Mode
}
