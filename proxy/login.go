package proxy

import (
	"bytes"
	"errors"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"lockproxy/cluster/pipe"
	"lockproxy/commands"
	"lockproxy/internal/lockevent"
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
	tag, logins, origin := h.CurrentTag(), &h.worker().server.logins, login.Origin(h.About().Addr)
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
	c.ask(pipe.Request{
		Target: pipe.ToSlot(h.Pool().SomeSlot(h.About().ID)), Mode: own.Mode(), Bytes: askHello(own.Mode()),
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
func (c *connection) become(as *tracking.User, set *pipe.Private) {
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

// maxShownUser is the length up to which the name of a user is logged.
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
	found, ok := s.all.Find(c.ID).(peer)
	if !ok {
		return
	}
	ses := found.s
	if refusal == nil {
		ses.attempts.Reset()
		return
	}
	if !bytes.HasPrefix(refusal, []byte("-WRONGPASS")) &&
		!bytes.HasPrefix(refusal, []byte("-ERR invalid password")) {
		return // it tells nothing about the password
	}
	now := time.Now()
	ses.attempts.Failed(now)
	s.addresses.Failed(login.Origin(c.Addr), now)
	kind, reason := &s.failures.Password, "password"
	if upstream {
		kind, reason = &s.failures.User, "user"
	}
	s.events.audited(lockevent.Event{Kind: lockevent.LoginFailed, Reason: reason,
		Client: lockevent.Client{Addr: c.Addr, User: v.shownUser(user)}})
	kind.Note(s.o.Log, "authentication failed", "client", c.Addr, "user", v.shownUser(user))
}

// ConfigSet implements commands.Server.
func (v whole) ConfigSet(c *commands.Client, pairs [][2]string) {
	for _, p := range pairs {
		value := p[1]
		if commands.SecretSetting(p[0]) || len(value) > maxShownSetting {
			value = "(not shown)"
		}
		v.s.events.audited(lockevent.Event{Kind: lockevent.Setting,
			Setting: strings.ToLower(p[0]), Value: value,
			Client: lockevent.Client{Addr: c.Addr, Name: c.Name[:min(len(c.Name), maxShownUser)],
				User: v.shownUser(c.UserName())}})
		v.s.changes.Write(v.s.o.Log, slog.LevelInfo, "setting changed", "setting", strings.ToLower(p[0]),
			"value", value, "client", c.Addr, "user", v.shownUser(c.User))
	}
}

// maxShownSetting is the length up to which the value of a setting is logged.
const maxShownSetting = 200

// shownUser is the name of a user for the log. What cannot be a name, or is the password in its place, is not
// shown.
func (v whole) shownUser(user string) string {
	unfit := func(r rune) bool { return r <= ' ' || r >= 0x7f }
	if len(user) > maxShownUser || strings.ContainsFunc(user, unfit) ||
		v.CheckAuth([]byte("default"), []byte(user)) {
		return "(not shown)"
	}
	return user
}
