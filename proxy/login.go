package proxy

import (
	"bytes"
	"errors"
	"strconv"
	"strings"
	"time"

	"lockproxy/cluster/pipe"
	"lockproxy/commands"
	"lockproxy/internal/resp"
	"lockproxy/proxy/client"
	"lockproxy/proxy/login"
	"lockproxy/proxy/tracking"
)

// This file is clients that are another user of the upstream than the proxy. What such a client may do its
// nodes decide, so its commands go over connections of its own, session.own, which authenticate as that user.

// askHello is what a new connection of a user is asked for, in the protocol that it speaks: Redis 6.0 knows
// no HELLO without one. Redis 7.0 lets every user ask; before, who may not has been let in as well as who
// may.
func askHello(m pipe.Mode) []byte {
	return resp.AppendCommandStrings(nil, "HELLO", strconv.Itoa(m.Proto))
}

// Login implements commands.Connection. Whether the upstream lets the user in is known when a connection is
// there, and few are made at a time.
func (c connection) Login(name, password string, then func(refusal []byte) []byte) {
	s := c.s
	s.SetHold(client.HoldOrder)
	tag, logins, origin := s.current, &s.w.server.logins, login.Origin(s.Addr)
	s.Expect(then, nil)
	entered := logins.Enter(origin, func() {
		posted := s.w.loop.Post(func() {
			if s.gone {
				logins.Leave(origin)
				return
			}
			s.current = tag
			c.logIn(&tracking.User{Name: name, Password: password}, func(refusal []byte) []byte {
				logins.Leave(origin)
				return then(refusal)
			})
		})
		if !posted {
			logins.Leave(origin)
		}
	})
	if !entered {
		s.w.loop.Post(func() { s.Receive(tag, login.ErrFull, true) })
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
	slot := s.w.pool.SomeSlot(s.ID)
	s.Feed(s.w.pool.Send(pipe.Request{
		Target: pipe.ToSlot(slot), Mode: own.Mode(), Bytes: askHello(own.Mode()),
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
func (c connection) become(as *tracking.User, set *pipe.Private) {
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

// maxShownUser is how long a user's name may be that is logged.
const maxShownUser = 64

var errLoginTooSoon = []byte("-ERR AUTH behind a wrong password in one transaction is not tried: " +
	"send it after EXEC\r\n")

// logsIn says that a command is an attempt to authenticate.
func logsIn(cmd *commands.Command, args [][]byte) bool {
	return cmd.Flags&commands.LogsIn != 0 && cmd.HasSecret(args)
}

// LoginEnded implements commands.Server.
func (v whole) LoginEnded(c *commands.Client, user string, upstream bool, refusal []byte) {
	s := v.s
	found, ok := s.byID.Load(c.ID)
	if !ok {
		return
	}
	ses := found.(*session)
	if refusal == nil {
		ses.attempts.Reset()
		return
	}
	if !bytes.HasPrefix(refusal, []byte("-WRONGPASS")) &&
		!bytes.HasPrefix(refusal, []byte("-ERR invalid password")) {
		return // it says nothing about the password
	}
	now := time.Now()
	ses.attempts.Failed(now)
	s.addresses.Failed(login.Origin(c.Addr), now)
	kind := &s.failures.Password
	if upstream {
		kind = &s.failures.User
	}
	kind.Note(s.o.Log, "authentication failed", "client", c.Addr, "user", v.shownUser(user))
}

// shownUser is a user's name for the log. What cannot be a name, or is the password in its place, is not
// shown.
func (v whole) shownUser(user string) string {
	unfit := func(r rune) bool { return r <= ' ' || r >= 0x7f }
	if len(user) > maxShownUser || strings.ContainsFunc(user, unfit) ||
		v.CheckAuth([]byte("default"), []byte(user)) {
		return "(not shown)"
	}
	return user
}
