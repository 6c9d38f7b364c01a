package proxy

import (
	"lockproxy/cluster"
	"lockproxy/commands"
	"lockproxy/internal/resp"
)

var ping = resp.AppendCommandStrings(nil, "PING")

// Select implements commands.Databases. Whether the upstream has the database is known once a connection to
// it is there: if none is, one is made, and the later commands of the client wait for it.
func (s *session) Select(n int) {
	mode := cluster.Mode{Proto: s.Proto, DB: n}
	if n == 0 || s.w.pipes.Reaches(mode) {
		s.DB = n
		s.Reply(selected)
		return
	}
	s.setHold(holdOrder)
	s.expect(func(reply []byte) []byte {
		if reply[0] == '-' && !s.w.pipes.Reaches(mode) {
			return reply
		}
		s.DB = n
		return selected
	}, nil)
	s.feed(s.w.pipes.Send(cluster.Request{Mode: mode, Bytes: ping, To: s, Tag: s.current, Resend: true}))
}

var selected = []byte("+OK\r\n")

// homeMode is that of connections for what the proxy asks by itself in database 0, as its own user: nothing of that is
// the client's to judge.
func (s *session) homeMode() cluster.Mode {
	if s.DB != 0 || s.as != nil {
		return cluster.Mode{Proto: s.Proto}
	}
	return s.mode()
}

// SendHome implements commands.Databases. Another database, or another user, has another connection: on that the request
// must neither overtake earlier commands of the client nor be overtaken by later ones.
func (s *session) SendHome(slot int, req []byte, resend bool, then func([]byte) []byte, lost func()) {
	home, away := s.homeMode(), s.DB != 0 || s.as != nil
	send := func() {
		s.expect(then, lost)
		s.feed(s.w.pipes.Send(cluster.Request{
			Target: cluster.ToSlot(slot), Mode: home, Bytes: req, To: s, Tag: s.current, Resend: resend,
		}))
	}
	switch {
	case !away:
	case s.answers.len() > 1:
		s.setHold(holdOrder)
		s.Send(commands.AnySlot, ping, true, func([]byte) []byte { send(); return nil }, lost)
		return
	default:
		s.setHold(holdOrder)
	}
	send()
}
