package proxy

import (
	"lockproxy/cluster/pipe"
	"lockproxy/commands"
	"lockproxy/proxy/client"
)

// This file keeps the requests of one client in order.

// inOrder makes sure that no command overtakes earlier ones that went by an older topology, over connections
// of another mode, or around a running script.
func (r *router) inOrder() bool {
	s := r.s
	v, epoch := s.w.pool.Version(), s.w.pool.StuckEpoch()
	if v != r.version || epoch != r.stuckEpoch || s.Mode() != r.routed {
		if s.answers.len() > 0 {
			if v == r.version && r.stuckEpoch == 0 && s.Mode() == r.routed {
				return true // behind the script, if its earlier commands are there
			}
			s.SetHold(client.HoldOrder)
			return false
		}
		r.version, r.stuckEpoch = v, epoch
		r.routed = s.Mode()
		s.own.Turn()
	}
	return true
}

// send sends req to the master of slot. Requests for any node all go to the same one, so that the commands of
// a client, such as PUBLISH, stay in order.
func (r *router) send(slot int, req []byte, resend, script bool) {
	s := r.s
	if slot == commands.AnySlot {
		slot = s.w.pool.SomeSlot(s.ID)
	}
	r.sendTo(pipe.ToSlot(slot), req, resend, script)
}

// Order implements pipe.Ordered.
func (s *session) Order(tag uint32) (client int64, n uint32, latest bool) {
	return s.ID, tag, tag+1 == s.answers.tail
}

// sendTo sends req: the current command, or a request on its behalf. script: it may run one by its SHA1.
func (r *router) sendTo(to pipe.Target, req []byte, resend, script bool) {
	s := r.s
	var receiver pipe.Receiver = s
	if resend {
		receiver = reader{s}
	}
	p := s.w.pool.Send(&pipe.Request{
		Target: to, Mode: s.Mode(), Bytes: req, To: receiver, Tag: s.current, Resend: resend,
		Script: script,
	})
	s.Sent(p, resend)
}
