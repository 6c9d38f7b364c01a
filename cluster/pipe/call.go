package pipe

import (
	"bytes"
	"math"
	"time"

	"lockproxy/cluster"
	"lockproxy/cluster/retry"
	"lockproxy/internal/loop"
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
	proving  = -3 // the same, for a question; see prove.go
)

// ring is a queue of calls that re-uses its memory.
type ring struct {
	buf  []call // a power of two
	from int
	n    int
}

func (r *ring) len() int { return r.n }

// head is the oldest call, valid until push and pop.
func (r *ring) head() *call { return &r.buf[r.from] }

// at is the i-th call, counted from the head.
func (r *ring) at(i int) *call { return &r.buf[(r.from+i)&(len(r.buf)-1)] }

// push copies *c.
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

// pop removes the head, of which there must be one.
func (r *ring) pop() {
	r.buf[r.from] = call{}
	r.from = (r.from + 1) & (len(r.buf) - 1)
	r.n--
}

// backlog keeps the bytes of requests, in order, from when they are queued until they are answered:
//
//	[ answered | written, waiting for replies | to be written ]
//
// They lie in parts. Small requests are copied, one behind the other. Each large one stays in the memory
// that it came in, and so does one that is kept. No request lies in two parts.
type backlog struct {
	parts [][]byte
	large bool // the last part is not our memory: nothing is copied behind it
	start int  // in the first part: where the oldest request begins
	at    int  // the part that is being written
	sent  int  // bytes of it that are written
	size  int  // of all requests
}

// appendBytes adds req, which is copied if it is not larger than loop.Shared.
func (b *backlog) appendBytes(req []byte) {
	b.size += len(req)
	last := len(b.parts) - 1
	if len(req) > loop.Shared {
		if last >= 0 && len(b.parts[last]) == 0 {
			b.parts = b.parts[:last]
		}
		b.parts, b.large = append(b.parts, req), true
		return
	}
	if last < 0 || b.large {
		b.parts, b.large = append(b.parts, nil), false
		last++
	}
	part := b.parts[last]
	// The room of what is answered is used before the part grows. It is more than half, so that moving the
	// rest costs little.
	if last == 0 && len(part)+len(req) > cap(part) && b.start > len(part)/2 {
		part = part[:copy(part, part[b.start:])]
		b.sent -= b.start
		b.start = 0
	}
	b.parts[last] = append(part, req...)
}

// keepBytes adds req, which is not copied: nobody writes to it any more. Requests that lie one behind the
// other in one piece of memory become one part, and are written together.
func (b *backlog) keepBytes(req []byte) {
	last := len(b.parts) - 1
	switch {
	case last >= 0 && b.large && continues(b.parts[last], req):
		b.parts[last] = b.parts[last][:len(b.parts[last])+len(req)]
	case last >= 0 && len(b.parts[last]) == 0:
		b.parts[last] = req
	default:
		b.parts = append(b.parts, req)
	}
	b.size += len(req)
	b.large = true
}

// continues says that req lies behind part, in the memory that part has.
func continues(part, req []byte) bool {
	n := len(part)
	return n > 0 && len(req) > 0 && cap(part) >= n+len(req) && &part[:n+1][n] == &req[0]
}

// output is what is to be written next.
func (b *backlog) output() []byte {
	for ; b.at < len(b.parts); b.at, b.sent = b.at+1, 0 {
		if out := b.parts[b.at][b.sent:]; len(out) > 0 || b.at == len(b.parts)-1 {
			return out
		}
	}
	return nil
}

// oldest is the oldest request, which has size bytes. It may be overwritten by the
// next append unless it is larger than loop.Shared.
func (b *backlog) oldest(size int) []byte { return b.parts[0][b.start : b.start+size] }

// written says that the oldest request, which has size bytes, is written in full.
func (b *backlog) written(size int) bool { return b.at > 0 || b.start+size <= b.sent }

// unwritten is how many bytes are to be written.
func (b *backlog) unwritten() int {
	n := -b.sent
	for _, part := range b.parts[b.at:] {
		n += len(part)
	}
	return n
}

// begun says that at least a part of the oldest request is written.
func (b *backlog) begun() bool { return b.at > 0 || b.sent > b.start }

// pop removes the oldest request. At most keep bytes of memory are kept for re-use.
func (b *backlog) pop(size, keep int) {
	b.start += size
	b.size -= size
	switch {
	case b.start < len(b.parts[0]):
		return
	case len(b.parts) > 1:
		n := copy(b.parts, b.parts[1:])
		b.parts[n] = nil
		b.parts = b.parts[:n]
		if b.at--; b.at < 0 { // answered before it was written in full
			b.at, b.sent = 0, 0
		}
	case b.large || cap(b.parts[0]) > keep:
		*b = backlog{}
	default:
		b.parts[0] = b.parts[0][:0]
		b.sent = 0
	}
	b.start = 0
}

// lasting is req in memory that nobody writes to.
func lasting(req []byte) []byte {
	if len(req) > loop.Shared {
		return req
	}
	return bytes.Clone(req)
}
