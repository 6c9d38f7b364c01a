package proxy

import (
	"unsafe"

	"lockproxy/commands"
	"lockproxy/internal/loop"
)

// sessionSize is what a session takes up whatever it does.
const sessionSize = int(unsafe.Sizeof(session{}) + unsafe.Sizeof(loop.Conn{}))

// peer describes the session as it is between two commands.
func (s *session) peer() commands.Peer {
	p := commands.Peer{
		Client: &s.Client, FD: s.conn.Descriptor(), Idle: s.w.loop.Now().Sub(s.active),
		Waits: s.Blocked || s.hold&holdWaiting != 0, Closing: s.hold&holdClosing != 0,
		Query: s.conn.Kept(), QueryRoom: s.conn.Room(),
		Replies: s.waiting(), ReplyRoom: s.out.Cap(), Stalled: s.conn.Stalled(),
	}
	if s.last != nil && s.last.Name != s.w.table.Unknown().Name {
		p.Command = s.last.Name
	}
	p.Memory = sessionSize + p.Query + p.QueryRoom + p.ReplyRoom + s.held + s.Transaction.Bytes + len(s.Name)
	return p
}

// Self implements commands.Crowd.
func (s *session) Self() *commands.Peer {
	p := s.peer()
	for _, arg := range s.w.call.Args {
		p.Args += len(arg)
	}
	if s.reading { // what it sends lies in the buffer of the loop, or still in its own
		p.Query = s.w.input
		p.QueryRoom = max(loop.Shared-p.Query, 0)
	}
	p.Memory += p.Query
	return &p
}
