package pipe

import (
	"errors"
	"fmt"

	"lockproxy/cluster"
	"lockproxy/cluster/retry"
	"lockproxy/internal/loop"
)

// This file is about requests that are sent as their bytes come, so that nobody keeps them. They can be sent
// only once. So a question goes first, which has the same keys and changes nothing: it waits for its node and
// follows redirects as any request. The stream goes over the connection on which the question is answered:
//
//	NewStream --> Pool.Send(question) --> Streamer.Ready --> Write ... Write --> Streamer.Receive
//	                                           ^                   |
//	                                           +-- all written <---+
//
// The connection is one of a Private, and carries nothing else until the answer is there.

// Streamer has a Stream. It gets the reply like that of any request, but for MOVED and ASK: then the request
// fails, and was not run. Discard and Detour are not called.
type Streamer interface {
	Receiver
	// Ready says that all bytes given so far are on their way over p, and more are wanted.
	Ready(p *Pipe)
}

// Stream is one request on its way to its node. All methods run on the loop.
type Stream struct {
	pool   *Pool
	to     Streamer
	tag    uint32
	pipe   *Pipe       // that has answered the question; or nil
	astray bool        // it did so behind ASKING
	begun  bool        // a part of the request was given to the pipe
	queue  loop.Buffer // what was given and does not stand in the log of the pipe
	left   int         // bytes that were given and are not written
	whole  bool        // all of it was given
	over   bool        // it is answered, has failed, or was ended
}

// Errors of streams.
var (
	errLeft     = errors.New("its keys went to another node while it was sent")
	errNoAnswer = errors.New("its node did not answer")
)

// NewStream finds the node of a request whose bytes are given later. m must be the mode of a Private.
// question goes to the node first. to gets the reply to the request under tag.
func NewStream(pool *Pool, target Target, m Mode, question []byte, to Streamer, tag uint32) *Stream {
	s := &Stream{pool: pool, to: to, tag: tag}
	pool.Send(&Request{Target: target, Mode: m, Bytes: question, To: s, Tag: tag, Resend: true})
	return s
}

// Write gives more of the request; last marks the end of it. b is copied, or kept if it is larger than
// loop.Shared. It must not be called before Ready. While Waits says so, more should not be given.
func (s *Stream) Write(b []byte, last bool) {
	if s.over {
		return
	}
	p := s.pipe
	s.whole = last
	switch {
	case p.Dead() != nil && !s.begun:
		s.Fail(s.tag, p.Dead())
	case !s.begun:
		s.begun, p.stream = true, s
		c := &call{to: s, tag: s.tag, slot: thisNode, raw: true}
		if s.astray {
			c.before = sayAsking
		}
		p.appendRequest(c, b)
		s.left = p.log.Unwritten()
	default:
		p.progress = s.pool.loop.Now()
		n := 0
		if s.left == 0 {
			n = p.conn.Write(b)
		}
		if n < len(b) {
			s.queue.Append(s.pool.loop, b[n:])
			s.left += len(b) - n
			p.conn.Flush()
		}
	}
}

// Waits says that the node has not taken yet what was given. When it has, Ready is called.
func (s *Stream) Waits() bool { return s.left > 0 && !s.over }

// Memory is how many bytes it takes.
func (s *Stream) Memory() int {
	if s == nil {
		return 0
	}
	return s.queue.Cap()
}

// End ends the request without an answer. If a part of it was given, the connection is closed, so that the
// node drops that part; unless it has all of it, the request does not run.
func (s *Stream) End() {
	if s.over {
		return
	}
	s.finishStream()
	if s.begun {
		s.pipe.End()
	}
}

// finishStream lets go of everything. The pipe carries other requests again.
func (s *Stream) finishStream() {
	s.over = true
	s.queue.Free(s.pool.loop)
	if s.begun {
		s.pipe.stream = nil
	}
}

// output is what is to be written behind the log of the pipe.
func (s *Stream) output() []byte { return s.queue.Bytes() }

// wrote notes that n bytes are written, from the queue or from the log.
func (s *Stream) wrote(n int, queued bool) {
	s.pipe.progress = s.pool.loop.Now()
	s.left -= n
	if queued {
		s.queue.Take(s.pool.loop, n)
	}
	if s.left == 0 && !s.whole {
		s.to.Ready(s.pipe)
	}
}

// starves says that the node has all that was given, and owes nothing before it gets more: it is this side
// that is silent. s may be nil.
func (s *Stream) starves() bool { return s != nil && s.left == 0 && !s.whole }

// answered is told of an answer before Receive, if it comes from a node.
func (s *Stream) answered(p *Pipe, astray bool) {
	switch {
	case !s.begun:
		s.pipe, s.astray = p, astray
	case s.left > 0 || !s.whole: // as when the node closes because of what it has got
		p.hangUp(cluster.ErrHasty)
	}
}

// Receive implements Receiver.
func (s *Stream) Receive(_ uint32, chunk []byte, last bool) {
	switch {
	case s.over:
		return
	case !s.begun && s.pipe != nil:
		if last { // whatever it says: the node will say so again
			s.to.Ready(s.pipe)
		}
		return
	case last && s.begun && chunk[0] == '-':
		s.pipe.Retryable(chunk) // refreshes the topology
		if retry.IsRedirect(chunk) {
			s.finishStream()
			s.to.Fail(s.tag, &cluster.Untaken{Why: errLeft, Nodes: true})
			return
		}
	}
	if last {
		s.finishStream()
	}
	s.to.Receive(s.tag, chunk, last)
}

// Fail implements Receiver.
func (s *Stream) Fail(_ uint32, err error) {
	if s.over {
		return
	}
	switch {
	case !s.begun:
		if _, untaken := errors.AsType[*cluster.Untaken](err); !untaken && !errors.Is(err, cluster.ErrMode) {
			err = &cluster.Untaken{Why: errNoAnswer}
		}
	case s.left == 0 && s.whole:
		err = fmt.Errorf("%w: %w", cluster.ErrUnknownOutcome, s.pipe.Dead())
	case s.pipe.why == nil:
		err = fmt.Errorf("%w: %w", cluster.ErrUnavailable, errCutLarge)
	default:
		err = fmt.Errorf("%w: %w", cluster.ErrUnavailable, s.pipe.Dead())
	}
	s.finishStream()
	s.to.Fail(s.tag, err)
}

// Discard implements Receiver.
func (s *Stream) Discard(uint32) bool { return true }

// Detour implements Receiver.
func (s *Stream) Detour(uint32) {}

// Most implements Longer.
func (s *Stream) Most(uint32) int { return AnyLength }
