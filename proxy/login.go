package proxy

import (
	"bytes"

	"lockproxy/cluster"
	"lockproxy/commands"
	"lockproxy/internal/resp"
)

// This file is clients that are another user of the upstream than the proxy. What such a client may do its
// nodes decide, so its commands go over connections of its own, session.own, which authenticate as that user.

// user is one of the upstream's ACL.
type user struct {
	name, password string
	rules          string // that its client was last judged by; "": it is to be judged
}

// askHello is what a new connection of a user is asked for, in the protocol that it speaks: Redis 6.0 knows
// no HELLO without one. Redis 7.0 lets every user ask; before, who may not has been let in as well as who
// may.
func askHello(m cluster.Mode) []byte { return resp.AppendCommandStrings(nil, "HELLO", itoa(m.Proto)) }

// Login implements commands.Connection. Whether the upstream lets the user in is known when a connection is
// there, and few are made at a time.
func (c connection) Login(name, password string, then func(refusal []byte) []byte) {
	s := c.s
	s.setHold(holdOrder)
	tag, logins, origin := s.current, &s.w.server.logins, originOf(s.Addr)
	s.expect(then, nil)
	entered := logins.enter(origin, func() {
		posted := s.w.loop.Post(func() {
			if s.gone {
				logins.leave(origin)
				return
			}
			s.current = tag
			s.logIn(&user{name: name, password: password}, func(refusal []byte) []byte {
				logins.leave(origin)
				return then(refusal)
			})
		})
		if !posted {
			logins.leave(origin)
		}
	})
	if !entered {
		s.w.loop.Post(func() { s.Receive(tag, errLoginsFull, true) })
	}
}

// logIn has the current command wait for a connection as that user.
func (s *session) logIn(as *user, then func(refusal []byte) []byte) {
	own := s.connections(as)
	s.expect(func(reply []byte) []byte {
		if refused := own.Refused(); refused != nil {
			reply = refused
		}
		if reply[0] == '-' && !bytes.HasPrefix(reply, []byte("-NOPERM ")) || s.gone {
			own.End()
			return then(bytes.Clone(reply))
		}
		s.become(as, own)
		return then(nil)
	}, nil)
	slot := s.w.pipes.SomeSlot(s.ID)
	s.feed(s.w.pipes.Send(cluster.Request{
		Target: cluster.ToSlot(slot), Mode: own.Mode(), Bytes: askHello(own.Mode()),
		To: s, Tag: s.current, Resend: true,
	}))
}

// Logout implements commands.Connection.
func (c connection) Logout() {
	s := c.s
	if s.as == nil {
		return
	}
	if s.Tracking.On {
		s.become(nil, s.connections(nil))
		return
	}
	s.become(nil, nil)
}

// connections is a set for the client as that user, nil: as the proxy. They track if the client does.
func (s *session) connections(as *user) *cluster.Private {
	mode := s.mode()
	mode.Apart = false
	var own *cluster.Private
	if as == nil {
		own = s.w.pipes.Private(mode, tracked{s})
	} else {
		own = s.w.pipes.PrivateAs(mode, tracked{s}, as.name, as.password)
	}
	if t := s.Tracking; t.On {
		own.Configure(trackingSetup(t, t.Prefixes), nil)
	}
	return own
}

// become has the client's commands go over own, the connections of that user, or if it is nil over shared
// ones.
func (s *session) become(as *user, own *cluster.Private) {
	before := s.own
	s.as, s.own = as, own
	if tx := s.tx; tx != nil && tx.lane != nil {
		tx.trouble(tx.lane, cluster.Redirection{}, nil, errUser)
	}
	if before != nil {
		before.End()
	}
	if !s.Tracking.On {
		return
	}
	tracked{s}.Stale() // what was read over other connections
	if s.Tracking.BCast {
		own.Everywhere()
	}
}

// leaveUser ends that the client is a user, and that it tracks. If it has gone, its connections stay those of
// its user: what it asked for may go on, and not as the proxy.
func (s *session) leaveUser() {
	if s.as == nil || !s.gone {
		s.as = nil
		s.untrack()
		return
	}
	if s.Tracking.On {
		s.w.server.tracking.Add(-1)
		s.Tracking = commands.Tracking{}
	}
	s.own.End()
}

// unowned ends the client's own connections, unless those of a user go on.
func (s *session) unowned() {
	if s.own == nil {
		return
	}
	s.own.End()
	if s.own = nil; s.as != nil {
		s.own = s.connections(s.as)
	}
}
