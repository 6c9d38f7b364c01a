package proxy

import (
	"bytes"
	"errors"
	"strconv"

	"lockproxy/cluster/pipe"
	"lockproxy/cluster/pipe/owned"
	"lockproxy/commands"
	"lockproxy/internal/resp"
	"lockproxy/proxy/client"
	"lockproxy/proxy/login"
	"lockproxy/proxy/tracking"
)

// This file is for clients that are users of the upstream. The nodes decide what such a client may do: its
// commands go over connections of its own, session.own, which authenticate as that user.

// askHello is the first request over a new connection of a user, in the protocol of that connection: Redis
// 6.0 has no HELLO without one. Redis 7.0 lets every user ask; before that, an answer that the user may not
// ask also shows that the user was let in.
func askHello(m pipe.Mode) []byte {
	return resp.AppendCommandStrings(nil, "HELLO", strconv.Itoa(m.Proto))
}

// Login implements commands.Connection. Only a connection shows whether the upstream lets the user in, and
// few are opened at a time.
func (c *connection) Login(name, password string, then func(refusal []byte) []byte) {
	h := c.h
	h.SetHold(client.HoldOrder)
	h.Expect(then)
	tag, logins, origin := h.CurrentTag(), &h.worker().shared.Login.Queue, login.Origin(h.About().Addr)
	entered := logins.Enter(origin, func() {
		posted := h.Loop().Post(func() {
			if h.Gone() {
				logins.Leave(origin)
				return
			}
			h.Resume(tag, func() []byte {
				c.logIn(&tracking.User{Name: name, Password: password}, func(refusal []byte) []byte {
					logins.Leave(origin)
					return then(refusal)
				})
				return nil
			})
		})
		if !posted {
			logins.Leave(origin)
		}
	})
	if !entered {
		h.Loop().Post(func() { h.Receive(tag, login.ErrFull, true) })
	}
}

// logIn makes the current command wait for a connection as that user.
func (c *connection) logIn(as *tracking.User, then func(refusal []byte) []byte) {
	h, own := c.h, c.own.Open(as, c.tracking)
	mode := pipe.ModeOf(own)
	c.ask(pipe.Request{
		Target: pipe.ToSlot(h.Pool().SomeSlot(h.About().ID)), Mode: mode, Bytes: askHello(mode),
	}, func(reply []byte) []byte {
		if refused := own.Refused(); refused != nil {
			reply = refused
		}
		if reply[0] == '-' && !bytes.HasPrefix(reply, []byte("-NOPERM ")) || h.Gone() {
			own.End()
			return then(bytes.Clone(reply))
		}
		c.become(as, own)
		return then(nil)
	})
}

// Logout implements commands.Connection.
func (c *connection) Logout() {
	switch {
	case c.own.User() == nil:
	case c.h.About().Tracking.On:
		c.become(nil, c.own.Open(nil, c.tracking))
	default:
		c.become(nil, nil)
	}
}

// become makes the client's commands go over set, the connections of that user, or over the shared ones if
// set is nil.
func (c *connection) become(as *tracking.User, set *owned.Set) {
	before := c.own.Become(as, set)
	c.tx.Lose(errUser) // its connection is still that of the previous user
	if before != nil {
		before.End()
	}
	now := &c.h.About().Tracking
	if !now.On {
		return
	}
	c.tracking.Stale() // what was read over the previous connections
	if now.BCast {
		set.Everywhere()
	}
}

var errUser = errors.New("the client is another user now")

var errLoginTooSoon = []byte("-ERR AUTH behind a wrong password in one transaction is not tried: " +
	"send it after EXEC\r\n")

// logsIn says that a command is an attempt to authenticate.
func logsIn(cmd *commands.Command, args [][]byte) bool {
	return cmd.Flags&commands.LogsIn != 0 && cmd.HasSecret(args)
}
