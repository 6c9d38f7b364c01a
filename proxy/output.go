package proxy

import (
	"lockproxy/cluster/pipe/owned"
	"lockproxy/internal/loop"
	"lockproxy/proxy/client"
	"lockproxy/proxy/memory"
)

const (
	// outputLow is how many bytes of replies may be left when reading of commands resumes.
	outputLow = 64 << 10
	// narrowFrom is how many bytes of replies shrink the window of commands under way.
	narrowFrom = 256 << 10
	// writeAtOnce is how long a piece of a reply is that is not copied if the client takes it at once.
	writeAtOnce = 16 << 10
)

// output is all that waits for one client: what is to be written, and what waits for its turn among the
// answers. It belongs to the loop.
type output struct {
	s          *session
	buf        loop.Buffer
	pushes     []push          // that wait for their place among the answers
	held       int             // bytes in answers and pushes
	full       memory.Fullness // of its soft limit
	deliveries client.Deliveries
	holding    *owned.Set // the client's own connections, if they are not read now; or nil
}

// push is a message to a client beside its answers. bytes are written as they are, in the protocol of the
// client.
type push struct {
	behind uint32 // the command whose answer precedes it
	bytes  []byte
}

// writeBytes appends b to the client's output. b is copied, or kept if it is larger than loop.Shared: then it
// must not be changed any more. They need not be the whole of an answer. It may close the client, if too much
// waits for it then.
func (o *output) writeBytes(b []byte) {
	s := o.s
	before := o.buf.Cap()
	// What a socket takes at once need not be copied.
	if len(b) >= writeAtOnce && s.Authenticated {
		n := s.conn.Write(b)
		o.deliveries.Appended += uint64(n)
		o.noteWritten(n)
		b = b[n:]
	}
	if len(b) > loop.Shared {
		o.buf.Adopt(s.w.loop, b)
	} else {
		o.buf.Append(s.w.loop, b)
	}
	if grown := o.buf.Cap() - before; grown != 0 {
		s.footprint.addBytes(grown)
	}
	o.deliveries.Appended += uint64(len(b))
	s.conn.Flush()
	// So a node keeps what its client does not take, and the proxy need not.
	if s.conn.Stalled() && s.conn.Kept() == 0 {
		o.holdNodes(s.Mode().Own)
	}
	if n := o.buf.Len(); n > s.w.checkFrom || n > memory.UnknownUnread && !s.Authenticated {
		o.checkLimits()
	}
}

// noteWritten notes that n bytes are written. Time-outs of idle clients run from the last byte either way.
func (o *output) noteWritten(n int) {
	o.deliveries.Written += uint64(n)
	o.s.active = o.s.w.loop.Now()
	o.s.w.bytesOut.Add(uint64(n))
}

// holdNodes has nothing read from set, the client's own connections to nodes, because the client does not
// take what came; nil: it takes it again, or writes more, since many clients write everything before they
// read. What waits for its turn behind other answers does not matter, since those may come over the same
// connections.
func (o *output) holdNodes(set *owned.Set) {
	before := o.holding
	if set == before {
		return
	}
	o.holding = set
	if before != nil {
		before.Pause(false)
	}
	if set != nil {
		set.Pause(true)
	}
}

// writeAll is write for all that was collected.
func (o *output) writeAll(c *client.Collected) {
	for _, piece := range c.Front {
		o.writeBytes(piece)
	}
	o.writeBytes(c.Buf)
}

// keepAnswer keeps a piece of an answer whose turn has not come, or of a reply of which it will be made.
func (o *output) keepAnswer(a *answer, piece []byte) {
	a.Keep(o.s.w.loop, piece)
	o.held += len(piece)
	o.checkLimits()
}

// waitingBytes is how many bytes of replies wait for the client, or for their turn.
func (o *output) waitingBytes() int { return o.buf.Len() + o.held }

// Push implements client.Host. message is kept, not copied.
func (s *session) Push(tag uint32, message []byte) {
	if s.gone || len(message) == 0 {
		return
	}
	o := &s.out
	o.pushes = append(o.pushes, push{tag, message})
	o.held += len(message)
	if !s.answers.midAnswer() {
		o.writePushes()
	}
	o.checkLimits()
}

// writePushes writes the pushes whose turn it is. It is called between two answers. Those whose command is
// not answered yet stay, in their order.
func (o *output) writePushes() {
	s := o.s
	if len(o.pushes) == 0 {
		return
	}
	kept := o.pushes[:0]
	for _, p := range o.pushes {
		if s.answers.hasCommand(p.behind) {
			kept = append(kept, p)
			continue
		}
		o.held -= len(p.bytes)
		if o.writeBytes(p.bytes); s.gone { // more waits for the client than is allowed
			return
		}
	}
	clear(o.pushes[len(kept):])
	o.pushes = kept
	if len(kept) == 0 {
		o.pushes = nil
	}
}

// relieveClient has the client's commands read again if little enough waits for it now. It is called when
// something has been written or dropped.
func (o *output) relieveClient() {
	s, enough := o.s, outputLow
	if !s.Authenticated {
		enough = memory.UnknownUnread / 2
	}
	if s.hold&client.HoldOutput != 0 && o.waitingBytes() < enough {
		s.ClearHold(client.HoldOutput)
	}
}

// checkLimits bounds what waits for a client: first it is no longer read from, and beyond its limit it is
// closed. A client that is read no more may still get answers to what it has sent, so the limit may be
// reached even then.
func (o *output) checkLimits() {
	s, all := o.s, &o.s.w.shared.Memory
	s.CountMemory()
	class := memory.Normal
	switch {
	case !s.Authenticated:
		class = memory.Unauthenticated
	case s.subscriber.Listens():
		class = memory.PubSub
	}
	waiting := o.waitingBytes()
	limit, unread := s.w.shared.Now.Load().Output.Of(class, all.Limit())
	if waiting > unread {
		s.SetHold(client.HoldOutput)
	}
	if o.full.Exceeds(&limit, waiting, s.w.loop.Now()) && !s.gone {
		all.Full[class].Add(1)
		s.w.shared.Log.Warn("client closed: client-output-buffer-limit", "client", s.Addr,
			"class", class.String(), "bytes", waiting)
		s.conn.Close()
	}
}

// Output implements loop.Handler.
func (s *session) Output() []byte { return s.out.buf.Bytes() }

// Wrote implements loop.Handler.
func (s *session) Wrote(n int) {
	before := s.out.buf.Cap()
	s.out.buf.Take(s.w.loop, n)
	s.footprint.addBytes(s.out.buf.Cap() - before)
	s.out.noteWritten(n)
	if s.out.buf.Len() == 0 {
		s.out.holdNodes(nil)
	}
	s.out.relieveClient()
	if s.out.full.Any() {
		s.out.checkLimits()
	}
}

// PushMessage gives the client a message, behind the answer to the command by which it listens, and says
// whether that command is answered: if the message came earlier it would be taken for the answer to an
// earlier command. told: it was answered before. What the client may have published itself comes
// behind the answer to that, as with Redis since 7.2. message is a reply of RESP2, whose first byte may be
// changed; but if it is larger than loop.Shared it must not be changed any more.
func (s *session) PushMessage(message []byte, behind uint32, told bool) bool {
	kind := replyKinds[s.Proto]
	if len(message) <= loop.Shared {
		message[0], kind = kind[0], nil
	} else {
		message = message[1:]
	}
	told = told || !s.answers.hasCommand(behind)
	switch {
	case !told:
	case s.Proto == 3 && s.answers.hasCommand(s.answers.published):
		behind = s.answers.published
	case s.answers.midAnswer():
		behind = s.answers.head
	default:
		if kind != nil {
			s.out.writeBytes(kind)
		}
		s.out.writeBytes(message)
		return true
	}
	s.Push(behind, kind)
	s.Push(behind, client.Lasting(message))
	return told
}

// replyKinds are the first bytes of messages, by protocol. A message of RESP2 is an array; in RESP3 it is a
// push.
var replyKinds = [...][]byte{2: []byte("*"), 3: []byte(">")}
