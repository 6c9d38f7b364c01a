package proxy

import (
	"unsafe"

	"lockproxy/cluster"
	"lockproxy/commands"
	"lockproxy/internal/resp"
	"lockproxy/proxy/client"
	"lockproxy/proxy/scatter"
)

// This file keeps long commands from holding up the loop. A command of a million arguments takes a second to
// take apart, to cut by slot, to copy to the nodes, and to combine its replies.
//
//	Read --> takeApart --(goroutine)--> Read again: dispatch --> scatter.Send --(goroutine)--> some parts a
//	     round --> nodes --> scatter.Gather --(goroutine)--> answer
//
// Later commands of the client wait, as behind any command that has not been started.

// longCommand is a command of more than longFrom bytes, which a goroutine takes apart while it stays at the
// front of the input. Until it is ready only that goroutine touches it.
type longCommand struct {
	size  int
	ready bool
	args  [][]byte
	err   error

	cmd   *commands.Command // the command that the next fields are about, or nil
	place commands.Place
	cut   *commands.Cut
	merge commands.Merge
}

// bySlot says that the slot of a command matters.
func (r *router) bySlot() bool {
	s := r.s
	return s.w.masters() > 1 || s.w.pool.Topology().Kind == cluster.Cluster
}

// read finds the arguments, and the place of the command if that depends on the slots of its keys.
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

// memory is how many bytes the arguments take besides the command; 0 while the goroutine has them.
func (l *longCommand) memory() int {
	if l == nil || !l.ready {
		return 0
	}
	return cap(l.args) * int(unsafe.Sizeof([]byte{}))
}

// SlotOf is cmd.Slot for the command that is being dispatched.
func (r *router) SlotOf(cmd *commands.Command, args [][]byte) (int, error) {
	if p := r.placeOf(cmd); p != nil {
		return p.Slot, p.Err
	}
	return cmd.Slot(args)
}

// placeOf is the place of the command that is being dispatched, if a goroutine has computed it.
func (r *router) placeOf(cmd *commands.Command) *commands.Place {
	s := r.s
	if s.in.long != nil && s.in.long.cmd == cmd {
		return &s.in.long.place
	}
	return nil
}

// cutBySlot cuts the command that is being dispatched into parts by slot; nil: it cannot be cut.
func (r *router) cutBySlot(cmd *commands.Command, args [][]byte) (*scatter.Parts, commands.Merge) {
	if l := r.s.in.long; l != nil && l.cmd == cmd {
		if l.cut == nil {
			return nil, nil
		}
		return scatter.ToMake(l.cut, l.size+l.memory()), l.merge
	}
	cut, merge := cmd.CutBySlot(args)
	if cut == nil {
		return nil, nil
	}
	return scatter.Made(cut.All()), merge
}

// split sends the parts of a command to the nodes of their slots; reads go to replicas if the client wants
// that.
func (r *router) split(cmd *commands.Command, parts *scatter.Parts, merge commands.Merge) {
	scatter.Send(r.s, parts, scatter.How{
		Resend: cmd.Flags&commands.ReadOnly != 0, Readers: r.readers(cmd), Pure: cmd,
	}, merge)
}

// applyApart is apply for a reply that a goroutine joins.
func applyApart(s *session, tag uint32, reply client.Collected) {
	var whole []byte
	s.Background(func() { whole = reply.Whole() }, func() {
		a := s.answers.at(tag)
		a.Collected = client.Collected{Buf: whole}
		applyKept(s, tag, a)
	})
}
