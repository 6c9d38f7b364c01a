package proxy

import (
	"bytes"
	"errors"
	"strconv"

	"lockproxy/cluster"
	"lockproxy/internal/resp"
	"lockproxy/proxy/client"
	"lockproxy/proxy/tracking"
)

// This file is clients that are another user of the upstream than the proxy. What such a client may do its
// nodes decide, so its commands go over connections of its own, session.own, which authenticate as that user.

// askHello is what a new connection of a user is asked for, in the protocol that it speaks: Redis 6.0 knows
// no HELLO without one. Redis 7.0 lets every user ask; before, who may not has been let in as well as who
// may.
func askHello(m cluster.Mode) []byte {
	return resp.AppendCommandStrings(nil, "HELLO", strconv.Itoa(m.Proto))
}

// Login implements commands.Connection. Whether the upstream lets the user in is known when a connection is
// there, and few are made at a time.
func (c connection) Login(name, password string, then func(refusal []byte) []byte) {
	s := c.s
	s.SetHold(client.HoldOrder)
	tag, logins, origin := s.current, &s.w.server.logins, originOf(s.Addr)
	s.Expect(then, nil)
	entered := logins.enter(origin, func() {
		posted := s.w.loop.Post(func() {
			if s.gone {
				logins.leave(origin)
				return
			}
			s.current = tag
			c.logIn(&tracking.User{Name: name, Password: password}, func(refusal []byte) []byte {
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
func (c connection) logIn(as *tracking.User, then func(refusal []byte) []byte) {
	s := c.s
	own := s.own.Open(as, &s.tracking)
	s.Expect(func(reply []byte) []byte {
		if refused := own.Refused(); refused != nil {
			reply = refused
		}
		if reply[0] == '-' && !bytes.HasPrefix(reply, []byte("-NOPERM ")) || s.gone {
			own.End()
			return then(bytes.Clone(reply))
		}
		c.become(as, own)
		return then(nil)
	}, nil)
	slot := s.w.pipes.SomeSlot(s.ID)
	s.Feed(s.w.pipes.Send(cluster.Request{
		Target: cluster.ToSlot(slot), Mode: own.Mode(), Bytes: askHello(own.Mode()),
		To: s, Tag: s.current, Resend: true,
	}))
}

// Logout implements commands.Connection.
func (c connection) Logout() {
	s := c.s
	switch {
	case s.own.User() == nil:
	case s.Tracking.On:
		c.become(nil, s.own.Open(nil, &s.tracking))
	default:
		c.become(nil, nil)
	}
}

// become has the client's commands go over set, the connections of that user, or if it is nil over shared
// ones.
func (c connection) become(as *tracking.User, set *cluster.Private) {
	s := c.s
	before := s.own.Become(as, set)
	s.tx.Lose(errUser) // whose connection is still that of the user before
	if before != nil {
		before.End()
	}
	if !s.Tracking.On {
		return
	}
	s.tracking.Stale() // what was read over other connections
	if s.Tracking.BCast {
		set.Everywhere()
	}
}

var errUser = errors.New("the client is another user now")
