package pipe

import (
	"bytes"
	"math"
	"time"

	"lockproxy/cluster"
	"lockproxy/cluster/pipe/owned"
	"lockproxy/cluster/retry"
	"lockproxy/internal/loop"
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

// Receiver takes the replies of the requests that it sent. All methods run on
// the loop and must not block; they may send further requests.
type Receiver interface {
	// Receive is given the reply to request tag, as it came, in one or more
	// chunks; last marks the end of it. chunk is valid during the call. An
	// error reply comes as one chunk.
	Receive(tag uint32, chunk []byte, last bool)
	// Fail says that no reply, or no more of it, will come. err wraps
	// ErrUnknownOutcome or ErrUnavailable.
	Fail(tag uint32, err error)
	// Discard says that the reply to a request that may be sent again was cut off. The receiver forgets what
	// it has of it, because the reply comes anew. Or it returns false if it has passed that on: then Fail
	// follows.
	Discard(tag uint32) bool
	// Detour says that the request is sent once more, or may be: requests that are sent before it is answered
	// may overtake it.
	Detour(tag uint32)
}

// Repeater is a Receiver that is told if a request is sent again although it may have run.
type Repeater interface{ Repeated(tag uint32) }

// Longer is a Receiver that takes other replies than those to questions of the proxy's own, which may have
// resp.Answer.Bytes. A node that sends more than Most bytes to request tag, or announces them, loses its
// connection, and the request fails.
type Longer interface{ Most(tag uint32) int }

// What Longer.Most may say.
const (
	AnyLength = math.MaxInt        // it is passed on as it comes
	MostData  = 512<<20 + MostLine // data of a client, kept until it is whole: as long as a value may be
	MostLine  = 64 << 10           // a line that is not data
)

// Collector is a Receiver that wants one reply as a whole. Then is called with it, or with why there is none.
type Collector struct {
	Then  func(reply []byte, err error)
	reply []byte
}

// Receive implements Receiver.
func (c *Collector) Receive(_ uint32, chunk []byte, last bool) {
	if c.reply = append(c.reply, chunk...); last {
		c.Then(c.reply, nil)
	}
}

// Fail implements Receiver.
func (c *Collector) Fail(_ uint32, err error) { c.Then(nil, err) }

// Discard implements Receiver.
func (c *Collector) Discard(uint32) bool {
	c.reply = nil
	return true
}

// Detour implements Receiver.
func (c *Collector) Detour(uint32) {}

// call is one request on its way. It is copied as requests move between pipes and lists, and tags identify it
// to its receiver.
type call struct {
	to       Receiver      // nil: the reply is dropped (that of ASKING)
	came     time.Duration // when it was given to the pool, since that was made; no two are equal
	size     int           // bytes of the request in the backlog
	tag      uint32
	slot     int16 // or anySlot, thisNode
	resend   bool  // may be sent again when the reply was lost
	splits   bool  // the sender handles TRYAGAIN
	try      retry.Tries
	cuts     uint8  // connections that ended inside of it, if it is large: see largeTries
	healed   bool   // the script it needs was loaded for it
	ran      bool   // it may have run: it was written once, and its reply was lost
	raw      bool   // the sender handles errors and the loss of the connection
	ours     bool   // a question about the connection: its owner does not know of it
	astray   bool   // it was sent to the node that ASK named
	doubted  bool   // it was sent again although it may have run: see redirect.go
	believed bool   // it has not run, whatever its reply says
	lasting  bool   // nobody writes to its bytes any more: they are not copied
	script   bool   // it may run a script by its SHA1
	wide     bool   // it may be about keys of any slot
	again    bool   // it is sent again; see senders (waiting.go)
	alone    bool   // all that its client has sent behind it is refused as well, or answered; see order.go
	before   before // the command in front of it
}

// before says which command goes in front of a request on its connection.
type before uint8

const (
	nothing    before = iota
	sayAsking         // ASKING, once
	sayPrivate        // Setup.Before, each time it is sent
)

// outcome is the error for a request that gets no reply.
func (c *call) outcome() error {
	if c.ran {
		return cluster.ErrUnknownOutcome
	}
	return cluster.ErrUnavailable
}

const (
	anySlot  = -1 // any master will do
	thisNode = -2 // only the node of this pipe
	proving  = -3 // the same, for a question; see signs.Proof
)

// lasting is req in memory that nobody writes to.
func lasting(req []byte) []byte {
	if len(req) > loop.Shared {
		return req
	}
	return bytes.Clone(req)
}
