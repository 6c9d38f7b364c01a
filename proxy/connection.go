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
	"lockproxy/proxy/clients"
	"lockproxy/proxy/login"
	"lockproxy/proxy/tracking"
	"lockproxy/proxy/transaction"
	"lockproxy/proxy/watch"
)

// connection is what commands may change of a client's connection; it implements commands.Connection. Users
// and passwords are further down. It is made for one command, and valid as long as that is the current one.
type connection struct {
	h        connectionHost
	own      *tracking.Connections
	tracking *tracking.Tracker
	tx       *transaction.Client
	monitor  *clients.Monitor
	watcher  *watch.Watcher
	silence  *silence
}

// connectionHost is a session as its connection sees it. Its resetState is the session's, for RESET ends more
// than the connection knows.
type connectionHost interface {
	nodeAsker
	resetState()
	CountMemory()
}

// UpstreamUser implements commands.Connection.
func (c *connection) UpstreamUser() string {
	if u := c.own.User(); u != nil {
		return u.Name
	}
	return ""
}

// Select implements commands.Connection. Only a connection to the database shows whether the upstream has it.
// If there is none, one is made, and later commands of the client wait for it. Databases are those of the
// upstream: if it says no, so does the proxy, in its words.
func (c *connection) Select(n int) {
	h, about := c.h, c.h.About()
	mode := pipe.Mode{Proto: about.Proto, DB: n}
	if n == 0 || h.Pool().Reaches(mode) {
		about.DB = n
		h.Reply(resp.OK)
		return
	}
	h.SetHold(client.HoldOrder)
	c.askNode(pipe.Request{Mode: mode, Bytes: client.Ping}, func(reply []byte) []byte {
		if reply[0] == '-' && !h.Pool().Reaches(mode) {
			return reply
		}
		about.DB = n
		return resp.OK
	})
}

// Aside implements commands.Connection. No client waits for it; its memory is counted again when it has
// ended.
func (c *connection) Aside(task func()) { c.h.Background(task, c.h.CountMemory) }

// askNode sends a request that changes nothing; then turns the reply into the answer to the current command.
func (c *connection) askNode(r pipe.Request, then func(reply []byte) []byte) {
	client.Expect(c.h, then)
	r.To, r.Tag, r.Resend = c.h, c.h.CurrentTag(), true
	c.h.Sent(c.h.Pool().Send(&r), true)
}

// SetReplies implements commands.Connection.
func (c *connection) SetReplies(r commands.Replies) {
	if c.silence.setReplies(r) {
		c.h.Answers().Speak(c.h.CurrentTag())
	}
}

// Monitor implements commands.Connection.
func (c *connection) Monitor(reply []byte) { c.monitor.Start(reply) }

// WatchLocks implements commands.Connection.
func (c *connection) WatchLocks(match []byte) { c.watcher.Start(match) }

// Reset implements commands.Connection.
func (c *connection) Reset() { c.h.resetState() }

// The rest of this file is for clients that are users of the upstream. The nodes decide what such a client
// may do: its commands go over connections of its own, session.own, which authenticate as that user.

// Login implements commands.Connection. Only a connection shows whether the upstream lets the user in, and
// few are opened at a time. then is given the refusal, nil if there is none, and makes the answer. It has to
// wait for its turn in login.Queue; later commands wait, too.
func (c *connection) Login(name, password string, then func(refusal []byte) []byte) {
	h := c.h
	h.SetHold(client.HoldOrder)
	client.Expect(h, then)
	tag, logins, origin := h.CurrentTag(), &h.shared().Login.Queue, login.Origin(h.About().Addr)
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

// logIn makes the current command wait for a connection as that user. If the user is let in, the connection
// becomes the first of its set; if not, it ends.
func (c *connection) logIn(as *tracking.User, then func(refusal []byte) []byte) {
	h, own := c.h, c.own.Open(as, c.tracking)
	mode := pipe.ModeOf(own)
	// The first request is in the protocol of that connection: Redis 6.0 has no HELLO without one. Redis 7.0
	// lets every user ask; before that, an answer that the user may not ask also shows that the user was let
	// in.
	c.askNode(pipe.Request{
		Target: pipe.ToSlot(h.Pool().SomeSlot(h.About().ID)), Mode: mode,
		Bytes: resp.AppendCommandStrings(nil, "HELLO", strconv.Itoa(mode.Proto)),
	}, func(reply []byte) []byte {
		if refused := own.Refused(); refused != nil {
			reply = refused
		}
		if reply[0] == '-' && !bytes.HasPrefix(reply, []byte("-NOPERM ")) || h.Gone() {
			own.End()
			return then(bytes.Clone(reply))
		}
		c.becomeUser(as, own)
		return then(nil)
	})
}

// Logout implements commands.Connection: the client is the proxy's own user again. If it tracks, it still
// needs connections of its own.
func (c *connection) Logout() {
	switch {
	case c.own.User() == nil:
	case c.h.About().Tracking.On:
		c.becomeUser(nil, c.own.Open(nil, c.tracking))
	default:
		c.becomeUser(nil, nil)
	}
}

// becomeUser makes the client's commands go over set, the connections of that user, or over the shared ones
// if set is nil. set must have been opened for that user.
func (c *connection) becomeUser(as *tracking.User, set *owned.Set) {
	c.own.Become(as, set)
	c.tx.Lose(errUser) // its connection is still that of the previous user
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
