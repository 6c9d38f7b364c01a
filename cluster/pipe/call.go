package pipe

import (
	"math"
	"time"

	"lockproxy/cluster"
	"lockproxy/cluster/retry"
)

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

// call is one request on its way.
type call struct {
	to       Receiver      // nil: the reply is dropped (that of ASKING)
	came     time.Duration // when it was given to the pool, since that was made; no two are equal
	size     int           // bytes of the request in the backlog
	tag      uint32
	slot     int16 // or anySlot, thisNode
	resend   bool  // may be sent again when the reply was lost
	splits   bool  // the sender handles TRYAGAIN
	try      retry.Tries
	cuts     uint8 // connections that ended inside of it, if it is large
	healed   bool  // the script it needs was loaded for it
	ran      bool  // it may have run: it was written once, and its reply was lost
	raw      bool  // the sender handles errors and the loss of the connection
	ours     bool  // a question about the connection: its owner does not know of it
	astray   bool  // it was sent to the node that ASK named
	doubted  bool  // it was sent again although it may have run: see doubt.go
	believed bool  // it has not run, whatever its reply says
	lasting  bool  // nobody writes to its bytes any more: they are not copied
	script   bool  // it may run a script by its SHA1
	wide     bool  // it may be about keys of any slot
	again    bool  // it is sent again; see senders.go
	alone    bool  // all that its client has sent behind it is refused as well, or answered; see order.go
	before   before
}

// outcome is the error for a request that gets no reply.
func (c *call) outcome() error {
	if c.ran {
		return cluster.ErrUnknownOutcome
	}
	return cluster.ErrUnavailable
}

// before says which command goes in front of a request on its connection.
type before uint8

const (
	nothing    before = iota
	sayAsking         // ASKING, once
	sayPrivate        // Setup.Before, each time it is sent
)

const (
	anySlot  = -1 // any master will do
	thisNode = -2 // only the node of this pipe
	proving  = -3 // the same, for a question; see prove.go
)

// ring is a queue of calls that re-uses its memory.
type ring struct {
	buf  []call // a power of two
	from int
	n    int
}

func (r *ring) len() int { return r.n }

func (r *ring) head() *call { return &r.buf[r.from] }

// at is the i-th call, counted from the head.
func (r *ring) at(i int) *call { return &r.buf[(r.from+i)&(len(r.buf)-1)] }

func (r *ring) push(c *call) {
	if r.n == len(r.buf) {
		grown := make([]call, max(16, 2*len(r.buf)))
		k := copy(grown, r.buf[r.from:])
		copy(grown[k:], r.buf[:r.from])
		r.buf, r.from = grown, 0
	}
	r.buf[(r.from+r.n)&(len(r.buf)-1)] = *c
	r.n++
}

func (r *ring) pop() {
	r.buf[r.from] = call{}
	r.from = (r.from + 1) & (len(r.buf) - 1)
	r.n--
}
