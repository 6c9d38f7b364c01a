package proxy

import (
	"lockproxy/cluster"
	"lockproxy/commands"
	"lockproxy/internal/resp"
)

// This file keeps long commands from holding up the loop: a command of a million arguments takes a
// second to take apart, to cut by slot, to copy to the nodes and to put its reply together.
//
//	Read --> takeApart --(goroutine)--> Read again: dispatch --> spread, some parts a round
//	     --> nodes --> gather --> mergeApart --(goroutine)--> answer
//
// Later commands of the client wait as they do for any command that is not on its way yet.

const (
	// longFrom is how many bytes of a command or of a reply a loop deals with at once. It is
	// more than loop.Shared, so nobody writes to the memory of a command that is longer.
	longFrom = 256 << 10
	// spreadRound is how many bytes of parts are sent in one round of the loop.
	spreadRound = 256 << 10
)

// longCommand is a command of more than longFrom bytes that a goroutine takes apart while it stays
// at the front of the input. Only that goroutine touches it until it is done.
type longCommand struct {
	size int
	args [][]byte
	err  error

	cmd     *commands.Command // of which the following is, or nil
	slot    int
	slotErr error
	parts   []commands.Part
	merge   commands.Merge
}

// nextCommand is Guard.Next, which is not asked again about a command that is taken apart.
func (s *session) nextCommand(buf []byte) (n int, err error) {
	if s.long != nil {
		return s.long.size, nil
	}
	return s.guard.Next(buf, s.limits())
}

// argsOf is resp.Split of the command at the front of the input.
func (s *session) argsOf(raw []byte) (args [][]byte, _ []byte, err error) {
	if s.long != nil {
		return s.long.args, raw, s.long.err
	}
	return resp.Split(raw, s.w.args)
}

// takeApart has a goroutine take raw apart, after which it is read once more.
func (s *session) takeApart(raw []byte) {
	long := &longCommand{size: len(raw)}
	s.long = long
	s.setHold(holdLong)
	table := s.w.table
	s.w.server.tasks.Add(1)
	go func() { // ends by itself
		defer s.w.server.tasks.Done()
		long.read(table, raw)
		s.w.loop.Post(func() { s.clearHold(holdLong) })
	}()
}

// read finds the arguments, and the slots of the keys where they decide.
func (l *longCommand) read(table *commands.Table, raw []byte) {
	if l.args, _, l.err = resp.Split(raw, nil); l.err != nil || len(l.args) == 0 {
		return
	}
	cmd, refusal := table.Resolve(l.args)
	if refusal != nil {
		return
	}
	l.slot, l.slotErr = cmd.Slot(l.args)
	if l.slotErr == commands.ErrCrossSlot && cmd.Route == commands.Split {
		l.parts, l.merge = cmd.SplitBySlot(l.args)
	}
	l.cmd = cmd
}

// slotOf is cmd.Slot of the command that is being dispatched.
func (s *session) slotOf(cmd *commands.Command, args [][]byte) (int, error) {
	if s.long != nil && s.long.cmd == cmd {
		return s.long.slot, s.long.slotErr
	}
	return cmd.Slot(args)
}

// splitBySlot is cmd.SplitBySlot of the command that is being dispatched.
func (s *session) splitBySlot(cmd *commands.Command, args [][]byte) ([]commands.Part, commands.Merge) {
	if s.long != nil && s.long.cmd == cmd {
		return s.long.parts, s.long.merge
	}
	return cmd.SplitBySlot(args)
}

// spread sends the parts of a command to their nodes, some of them in each round of the loop, and none while
// the queue of a node is full.
type spread struct {
	*gather
	parts    []commands.Part
	next     int // of parts
	mode     cluster.Mode
	resend   bool
	replicas bool // may answer
}

func (x *spread) some() {
	s := x.s
	for sent := 0; x.next < len(x.parts); x.next++ {
		part := x.parts[x.next]
		if sent += len(part.Request); sent > spreadRound && sent > len(part.Request) {
			s.setHold(holdLong)
			s.w.loop.Post(x.some)
			return
		}
		if p := x.send(part); p != nil && p.Full() && x.next+1 < len(x.parts) {
			x.next++
			s.setHold(holdLong)
			p.WhenReady(x.some)
			return
		}
	}
	x.parts = nil
	s.clearHold(holdLong)
}

// send sends one part. The connections of a client that has gone carry nothing any more.
func (x *spread) send(part commands.Part) *cluster.Pipe {
	s, i := x.s, uint32(x.next)
	switch {
	case s.gone && x.mode.Own != nil:
		x.gather.Fail(i, cluster.ErrUnavailable)
		return nil
	case x.replicas && !s.gone:
		s.read(part.Slot, part.Request, x.gather, i)
		return nil
	}
	p := s.w.pipes.Send(part.Slot, x.mode, part.Request, x.gather, i, x.resend)
	if !x.resend {
		s.wrote(p)
	}
	s.feed(p)
	return p
}

// newPureGather is newGather for a merge that needs nothing but the replies.
func (s *session) newPureGather(n int, merge commands.Merge) *gather {
	g := newGather(s, n, merge)
	g.pure = true
	return g
}

// mergeApart has a goroutine make the answer of replies of size bytes.
func (g *gather) mergeApart(size int) {
	s, proto := g.s, g.s.Proto
	s.w.server.tasks.Add(1)
	go func() { // ends by itself
		defer s.w.server.tasks.Done()
		answer := g.merge(proto, g.replies)
		s.w.loop.Post(func() {
			if !s.gone {
				s.held -= size
			}
			s.answer(g.tag, answer)
		})
	}()
}
