package proxy

import (
	"context"

	"lockproxy/cluster"
	"lockproxy/commands"
)

// This file is what commands may ask of a session: it implements
// commands.Actions for the command s.current.

// Reply implements commands.Actions.
func (s *session) Reply(reply []byte) {
	s.acted = true
	by := uint8(byRefuse)
	if s.running {
		by, s.replied = byProxy, true
	}
	s.answers.at(s.current).by = by
	s.noteError(reply)
	s.answer(s.current, reply)
}

// noteError counts a reply of the proxy if it is an error.
func (s *session) noteError(reply []byte) {
	if len(reply) > 0 && reply[0] == '-' {
		s.w.server.books.erred(reply)
	}
}

// Forward implements commands.Actions.
func (s *session) Forward(slot int) {
	s.forward(slot, s.w.call.Command, s.w.call.Raw)
}

// Send implements commands.Actions.
func (s *session) Send(slot int, req []byte, resend bool, then func([]byte) []byte, lost func()) {
	s.expect(then, lost)
	if resend && s.answers.at(s.current).counter.writes {
		s.wroteSomewhere()
	}
	s.send(slot, req, resend)
}

// SendMaster implements commands.Actions.
func (s *session) SendMaster(i int, req []byte, resend bool, then func([]byte) []byte, lost func()) {
	s.expect(then, lost)
	p := s.w.pipes.Send(cluster.Request{
		Target: cluster.ToMaster(i), Mode: s.mode(), Bytes: req, To: s, Tag: s.current, Resend: resend,
	})
	if !resend {
		s.wrote(p)
	}
	s.feed(p)
}

// expect notes what becomes of the reply to the current command.
func (s *session) expect(then func([]byte) []byte, lost func()) {
	s.acted = true
	a := s.answers.at(s.current)
	a.then, a.lost = then, lost
}

// feed stops reading this client when the pipe that took its request is full.
func (s *session) feed(p *cluster.Pipe) {
	if p != nil && p.Full() && s.hold&holdUpstream == 0 {
		s.setHold(holdUpstream)
		p.WhenReady(func() { s.clearHold(holdUpstream) })
	}
}

// Masters implements commands.Actions.
func (s *session) Masters() int { return len(s.w.pipes.Topology().Masters) }

// Broadcast implements commands.Actions.
func (s *session) Broadcast(req []byte, resend bool, merge commands.Merge) {
	s.acted = true
	s.fan(newGather(s, s.Masters(), merge), req, resend)
}

// split sends the parts of a command to the nodes of their slots, reads to replicas if they are wanted there.
func (s *session) split(cmd *commands.Command, parts *partList, merge commands.Merge) {
	s.acted = true
	x := &spread{
		gather: s.newPureGather(parts.len(), merge), list: parts, mode: s.mode(),
		resend:   cmd.Flags&commands.ReadOnly != 0,
		replicas: s.ReadOnly >= s.w.readsFrom && cmd.ReadsKeys(),
	}
	x.begin()
}

// Await implements commands.Actions.
func (s *session) Await(start func(done func([]byte)), then func([]byte) []byte, lost func()) {
	s.expect(then, lost)
	if !s.running || s.w.call.Command.Flags&commands.LockVerb == 0 {
		s.setHold(holdOrder)
	}
	tag := s.current
	s.w.server.tasks.Add(1)
	start(func(reply []byte) {
		s.w.loop.Post(func() {
			s.Receive(tag, reply, true)
			s.locks.tidy(&s.answers)
		})
		s.w.server.tasks.Done() // until then the loop is open
	})
}

// Go implements commands.Actions.
func (s *session) Go(task func(ctx context.Context) []byte, lost func()) {
	s.parkTask(func(ctx context.Context) func() []byte {
		reply := task(ctx)
		return func() []byte { return reply }
	}, s.w.loop.Post, lost)
}

// parkTask is Go for a task that has its answer made on the loop, by the function that it returns. That runs
// also when the client has gone. post brings it to the loop.
func (s *session) parkTask(task func(ctx context.Context) (end func() []byte), post func(func()) bool, lost func()) {
	s.acted = true
	if s.ctx == nil {
		s.ctx, s.cancel = context.WithCancelCause(s.w.server.ctx)
	}
	if s.gone || s.eof {
		s.cancel(errClientGone)
	} else if s.draining {
		s.cancel(commands.ErrDraining)
	}
	tag, ctx := s.current, s.ctx
	a := s.answers.at(tag)
	a.lost, a.by = lost, byProxy
	waits := a.counter.blocks
	if waits {
		s.waitForLock()
	}
	s.setHold(holdTask)
	s.w.server.tasks.Add(1)
	go func() { // ends when the task does, which ctx bounds
		defer s.w.server.tasks.Done()
		end := task(ctx)
		posted := post(func() {
			reply := end()
			if waits {
				reply = s.waitedForLock(ctx, reply)
			}
			s.taskDone(tag, reply)
		})
		if !posted && lost != nil {
			lost()
		}
	}()
}

func (s *session) taskDone(tag uint32, reply []byte) {
	if len(reply) == 0 {
		reply = noAnswer
	}
	s.noteError(reply)
	s.answer(tag, reply)
	s.clearHold(holdTask)
	s.endIfDone()
}

// Pusher implements commands.Actions.
func (s *session) Pusher() func(message func(proto int) []byte) {
	tag := s.current
	return func(message func(proto int) []byte) {
		s.w.loop.Post(func() { s.push(tag, message) })
	}
}

// Gone implements commands.Actions.
func (s *session) Gone() bool { return s.gone }

// Close implements commands.Actions: what was asked for before is answered first.
func (s *session) Close() {
	s.draining = true
	s.setHold(holdClosing)
	s.closeIfAnswered()
}

// gather collects the replies of several nodes to the parts of one command.
type gather struct {
	s       *session
	tag     uint32
	replies []collected
	missing int
	merge   commands.Merge
	always  bool // merge runs also when the client has gone
	pure    bool // merge asks for nothing but the replies, and may run anywhere
}

// newGather prepares for n replies to the current command of s.
func newGather(s *session, n int, merge commands.Merge) *gather {
	g := &gather{s: s, tag: s.current, replies: make([]collected, n), missing: n, merge: merge}
	if n == 0 {
		s.answer(g.tag, commands.ErrorReply(errNoMasters))
	}
	return g
}

// Receive implements cluster.Receiver.
func (g *gather) Receive(i uint32, chunk []byte, last bool) {
	if !g.s.gone || g.always {
		g.replies[i].add(chunk)
		g.s.held += len(chunk)
		g.s.answers.at(g.tag).touched = true
		g.s.checkOutput()
	}
	if last {
		g.arrived()
	}
}

// Fail implements cluster.Receiver.
func (g *gather) Fail(i uint32, err error) {
	if !g.s.gone || g.always {
		g.s.held -= g.replies[i].size()
		g.replies[i] = collected{buf: commands.ErrorReply(err)}
		g.s.held += len(g.replies[i].buf)
	}
	g.arrived()
}

// Discard implements cluster.Receiver.
func (g *gather) Discard(i uint32) bool {
	if !g.s.gone || g.always {
		g.s.held -= g.replies[i].size()
	}
	g.replies[i] = collected{}
	return true
}

// Detour implements cluster.Receiver.
func (g *gather) Detour(uint32) { g.s.Detour(g.tag) }

func (g *gather) arrived() {
	if g.missing--; g.missing > 0 {
		return
	}
	size := 0
	for i := range g.replies {
		size += g.replies[i].size()
	}
	if size > longFrom && (!g.s.gone || g.always) {
		g.mergeApart(size)
		return
	}
	g.conclude(size, g.wholes())
}

// wholes are the replies, each in one piece.
func (g *gather) wholes() [][]byte {
	replies := make([][]byte, len(g.replies))
	for i := range g.replies {
		replies[i] = g.replies[i].whole()
	}
	return replies
}

// conclude makes the answer of replies, which have size bytes.
func (g *gather) conclude(size int, replies [][]byte) {
	s := g.s
	if s.gone && !g.always {
		s.settle(g.tag)
		return
	}
	if !s.gone {
		s.held -= size
		s.countMemory()
	}
	s.current, s.acted = g.tag, false
	switch answer := g.merge(s.Proto, replies); {
	case answer != nil:
		s.answer(g.tag, answer)
	case !s.acted:
		s.answer(g.tag, noAnswer)
	case size > longFrom && !s.gone && s.unanswered(g.tag):
		if a := s.answers.at(g.tag); a.then != nil { // a goroutine has the replies now
			a.lent = size
			s.held += size
			s.countMemory()
		}
	}
}
