package proxy

import (
	"cmp"

	"lockproxy/cluster"
	"lockproxy/commands"
)

// This file is what commands may ask of a session that concerns several nodes: it
// implements commands.Fan for the command s.current.

// Owner implements commands.Fan.
func (s *session) Owner(slot int) int { return s.w.pipes.Owner(slot) }

// MasterName implements commands.Fan.
func (s *session) MasterName(i int) string {
	n := s.w.pipes.Topology().Masters[i]
	return cmp.Or(n.ID, n.Addr)
}

// Single implements commands.Fan.
func (s *session) Single() bool { return s.w.pipes.Topology().Kind == cluster.Single }

// Busy implements commands.Fan.
func (s *session) Busy() bool { return s.w.server.pipeStats.Stuck.Load() > 0 }

// Gather implements commands.Fan.
func (s *session) Gather(req []byte, resend bool, then commands.Merge) {
	s.acted = true
	g := newGather(s, s.Masters(), then)
	g.always = true
	s.fan(g, req, resend)
}

// fan sends req to all masters, whose replies g collects.
func (s *session) fan(g *gather, req []byte, resend bool) {
	for i := range g.replies {
		p := s.w.pipes.Send(cluster.Request{
			Target: cluster.ToShard(i), Mode: s.mode(), Bytes: req, To: g, Tag: uint32(i), Resend: resend,
		})
		if !resend {
			s.wrote(p)
		}
		s.feed(p)
	}
}

// Split implements commands.Fan.
func (s *session) Split(parts []commands.Part, resend bool, merge commands.Merge) {
	s.acted = true
	for i := range parts {
		parts[i].Place = i
	}
	x := &spread{gather: newGather(s, len(parts), merge), list: &partList{made: parts}, mode: s.mode(), resend: resend}
	x.begin()
}

// Apart implements commands.Fan.
func (s *session) Apart(req []byte, merge commands.Merge) {
	s.acted = true
	masters := s.w.pipes.Topology().Masters
	g := newGather(s, len(masters), merge)
	mode := cluster.Mode{Proto: s.Proto}
	if s.as != nil {
		mode = s.mode()
	}
	for i, n := range masters {
		a := &apart{gather: g}
		a.pipe = s.w.pipes.Own(n.Addr, mode, a)
		a.pipe.Request(req, a, uint32(i))
	}
}

// SendTo implements commands.Fan.
func (s *session) SendTo(addr string, req []byte, resend bool, then func([]byte) []byte) {
	s.expect(then, nil)
	s.feed(s.w.pipes.Send(cluster.Request{
		Target: cluster.ToNode(addr), Mode: s.mode(), Bytes: req, To: s, Tag: s.current, Resend: resend,
	}))
}

// Tell implements commands.Fan.
func (s *session) Tell(req []byte) {
	for _, n := range s.w.pipes.Topology().Replicas {
		s.w.pipes.Send(cluster.Request{
			Target: cluster.ToNode(n.Addr), Mode: cluster.Mode{Proto: 2}, Bytes: req,
			To: &told{s.w, n.Addr}, Resend: true,
		})
	}
}

// apart has a connection of its own for one request.
type apart struct {
	*gather
	pipe *cluster.Pipe
}

// Receive implements cluster.Receiver.
func (a *apart) Receive(i uint32, chunk []byte, last bool) {
	if last {
		a.pipe.Release()
	}
	a.gather.Receive(i, chunk, last)
}

// Push implements cluster.Owner: nothing was asked for that would send any.
func (a *apart) Push([]byte, bool) {}

// Lost implements cluster.Owner: the request has failed before.
func (a *apart) Lost(error) {}

// told is a replica that was told something.
type told struct {
	w    *worker
	addr string
}

// Receive implements cluster.Receiver.
func (t *told) Receive(_ uint32, chunk []byte, _ bool) {
	if len(chunk) > 0 && chunk[0] == '-' {
		t.w.server.o.Log.Warn("replica refused what its master took", "node", t.addr, "err", string(chunk))
	}
}

// Fail implements cluster.Receiver.
func (t *told) Fail(_ uint32, err error) {
	t.w.server.o.Log.Warn("replica could not be told what its master was", "node", t.addr, "err", err)
}

// Discard implements cluster.Receiver.
func (t *told) Discard(uint32) bool { return true }

// Detour implements cluster.Receiver.
func (t *told) Detour(uint32) {}
