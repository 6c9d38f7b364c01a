package proxy

import (
	"lockproxy/commands"
	"lockproxy/internal/loop"
	"lockproxy/proxy/client"
)

// peer is a session as other clients see it. It implements clients.Client.
type peer struct{ s *session }

// Describe implements clients.Client.
func (p peer) Describe(to *commands.Peer) bool {
	if p.s.gone || p.s.conn.Over() {
		return false
	}
	*to = peerOf(p.s)
	return true
}

// Unblock implements clients.Client.
func (p peer) Unblock(withError bool, ended func(bool)) {
	switch s := p.s; {
	case !s.Blocked:
		ended(false)
	case !s.blocking.Unblock(withError, ended):
		ended(!s.gone && s.tasks.unblock(withError))
	}
}

// Close implements clients.Client.
func (p peer) Close() { p.s.conn.Close() }

// peerOf describes the session as it is between two commands.
func peerOf(s *session) commands.Peer {
	p := commands.Peer{
		Client: &s.Client, FD: s.conn.Descriptor(), Idle: s.w.loop.Now().Sub(s.active),
		Waits: s.Blocked || s.hold&client.HoldWaiting != 0, Closing: s.hold&client.HoldClosing != 0,
		Query: s.conn.Kept(), QueryRoom: s.conn.Room(),
		Replies: s.out.waiting(), ReplyRoom: s.out.buf.Cap(), Stalled: s.conn.Stalled(),
		BytesIn: s.in.bytes, BytesOut: s.out.deliveries.written, Commands: s.in.commands,
	}
	if s.last != nil && s.last.Name != s.w.table.Unknown().Name {
		p.Command = s.last.Name
	}
	p.Memory = s.footprint.use().sum()
	return p
}

// self describes the session while its command runs.
func (s *session) self() *commands.Peer {
	p := peerOf(s)
	for _, arg := range s.w.call.Args {
		p.Args += len(arg)
	}
	if s.reading { // what it sends is in the buffer of the loop, or still in its own
		p.Query = s.w.input
		p.QueryRoom = max(loop.Shared-p.Query, 0)
	}
	p.Memory += p.Query
	return &p
}
