package proxy

import (
	"unsafe"

	"lockproxy/cluster"
	"lockproxy/commands"
	"lockproxy/internal/resp"
)

// This file keeps long commands from holding up the loop: a command of a million arguments takes a
// second to take apart, to cut by slot, to copy to the nodes and to put its reply together.
//
//	Read --> takeApart --(goroutine)--> Read again: dispatch --> spread --(goroutine)--> some parts a round
//	     --> nodes --> gather --> mergeApart --(goroutine)--> answer
//
// Later commands of the client wait as they do for any command that is not on its way yet.

// longCommand is a command of more than longFrom bytes that a goroutine takes apart while it stays
// at the front of the input. Only that goroutine touches it until it is ready.
type longCommand struct {
	size  int
	ready bool
	args  [][]byte
	err   error

	cmd   *commands.Command // of which the following is, or nil
	place commands.Place
	cut   *commands.Cut
	merge commands.Merge
}

// bySlot says that it matters to which slot a command belongs.
func (r *router) bySlot() bool {
	s := r.s
	return s.w.masters() > 1 || s.w.pool.Topology().Kind == cluster.Cluster
}

// read finds the arguments, and where the command belongs if that depends on the slots of its keys.
func (l *longCommand) read(table *commands.Table, scripts *commands.Scripts, raw []byte, bySlot bool) {
	if l.args, _, l.err = resp.Split(raw, nil); l.err != nil || len(l.args) == 0 || !bySlot {
		return
	}
	cmd, refusal := table.Resolve(l.args)
	if refusal != nil {
		return
	}
	l.place = cmd.PlaceOf(l.args, table, scripts)
	if l.place.Err == commands.ErrCrossSlot && cmd.Route == commands.Split {
		l.cut, l.merge = cmd.CutBySlot(l.args)
	}
	l.cmd = cmd
}

// memory is how many bytes the arguments take up besides the command; 0 as long as the goroutine has them.
func (l *longCommand) memory() int {
	if l == nil || !l.ready {
		return 0
	}
	return cap(l.args) * int(unsafe.Sizeof([]byte{}))
}

// SlotOf is cmd.Slot of the command that is being dispatched.
func (r *router) SlotOf(cmd *commands.Command, args [][]byte) (int, error) {
	if p := r.placeOf(cmd); p != nil {
		return p.Slot, p.Err
	}
	return cmd.Slot(args)
}

// placeOf is where the command that is being dispatched belongs, if a goroutine has worked it out.
func (r *router) placeOf(cmd *commands.Command) *commands.Place {
	s := r.s
	if s.in.long != nil && s.in.long.cmd == cmd {
		return &s.in.long.place
	}
	return nil
}

// cutBySlot is how the command that is being dispatched is cut; nil: it cannot be.
func (r *router) cutBySlot(cmd *commands.Command, args [][]byte) (*partList, commands.Merge) {
	s := r.s
	if l := s.in.long; l != nil && l.cmd == cmd {
		if l.cut == nil {
			return nil, nil
		}
		return &partList{cut: l.cut, bytes: l.size + l.memory()}, l.merge
	}
	parts, merge := cmd.SplitBySlot(args)
	if parts == nil {
		return nil, nil
	}
	return &partList{made: parts}, merge
}

// newPureGather is newGather for a merge that needs nothing but the replies.
func newPureGather(s *session, n int, merge commands.Merge) *gather {
	g := newGather(s, n, merge)
	g.pure = true
	return g
}

// mergeApart has a goroutine put replies of size bytes together, and make the answer of them where that needs
// nothing else.
func (g *gather) mergeApart(size int) {
	s, proto := g.s, g.s.Proto
	s.w.server.tasks.Add(1)
	go func() { // ends by itself
		defer s.w.server.tasks.Done()
		replies := g.wholes()
		if !g.pure {
			s.w.loop.Post(func() { g.conclude(size, replies) })
			return
		}
		answer := g.merge(proto, replies)
		s.w.loop.Post(func() {
			if !s.gone {
				s.out.held -= size
				s.CountMemory()
			}
			s.Answer(g.tag, answer)
		})
	}()
}

// applyApart is apply of a reply that a goroutine puts together.
func applyApart(s *session, tag uint32, reply collected) {
	s.w.server.tasks.Add(1)
	go func() { // ends by itself
		defer s.w.server.tasks.Done()
		whole := reply.whole()
		s.w.loop.Post(func() {
			a := s.answers.at(tag)
			a.collected = collected{buf: whole}
			s.apply(tag, a)
		})
	}()
}
