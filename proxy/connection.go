package proxy

import (
	"lockproxy/cluster/pipe"
	"lockproxy/commands"
	"lockproxy/internal/resp"
	"lockproxy/proxy/client"
	"lockproxy/proxy/clients"
	"lockproxy/proxy/tracking"
	"lockproxy/proxy/transaction"
	"lockproxy/proxy/watch"
)

// connection is what commands may change of a client's connection; it implements commands.Connection. Users
// and passwords are in login.go.
type connection struct {
	h        connectionHost
	own      *tracking.Connections
	tracking *tracking.Tracker
	tx       *transaction.Client
	monitor  *clients.Monitor
	watcher  *watch.Watcher
	silence  *silence
}

// connectionHost is a session as its connection sees it.
type connectionHost interface {
	asker
	resetState()
	CountMemory()
}

var (
	ping     = resp.AppendCommandStrings(nil, "PING")
	selected = []byte("+OK\r\n")
)

// UpstreamUser implements commands.Connection.
func (c *connection) UpstreamUser() string {
	if u := c.own.User(); u != nil {
		return u.Name
	}
	return ""
}

// Select implements commands.Connection. Only a connection to the database shows whether the upstream has it.
// If there is none, one is made, and later commands of the client wait for it.
func (c *connection) Select(n int) {
	h, about := c.h, c.h.About()
	mode := pipe.Mode{Proto: about.Proto, DB: n}
	if n == 0 || h.Pool().Reaches(mode) {
		about.DB = n
		h.Reply(selected)
		return
	}
	h.SetHold(client.HoldOrder)
	c.ask(pipe.Request{Mode: mode, Bytes: ping}, func(reply []byte) []byte {
		if reply[0] == '-' && !h.Pool().Reaches(mode) {
			return reply
		}
		about.DB = n
		return selected
	})
}

// Aside implements commands.Connection.
func (c *connection) Aside(task func()) { c.h.Background(task, c.h.CountMemory) }

// ask sends a request that changes nothing; then turns the reply into the answer to the current command.
func (c *connection) ask(r pipe.Request, then func(reply []byte) []byte) {
	c.h.Expect(then)
	r.To, r.Tag, r.Resend = c.h, c.h.CurrentTag(), true
	c.h.Sent(c.h.Pool().Send(&r), true)
}

// SetReplies implements commands.Connection.
func (c *connection) SetReplies(r commands.Replies) {
	if c.silence.set(r) {
		c.h.Answers().Speak(c.h.CurrentTag())
	}
}

// Monitor implements commands.Connection.
func (c *connection) Monitor(reply []byte) { c.monitor.Start(reply) }

// WatchLocks implements commands.Connection.
func (c *connection) WatchLocks(match []byte) { c.watcher.Start(match) }

// Reset implements commands.Connection.
func (c *connection) Reset() { c.h.resetState() }

// silence is what CLIENT REPLY has set: 0, or one of
type silence uint8

const (
	silentOnce   silence = 1 << iota // the next command gets no answer
	silentAlways                     // no command gets one
)

// set is CLIENT REPLY. It says whether CLIENT REPLY itself is answered.
func (s *silence) set(r commands.Replies) bool {
	switch {
	case r == commands.RepliesOn:
		*s = 0
		return true
	case r == commands.RepliesOff:
		*s = silentAlways
	case *s == 0:
		*s = silentOnce
	}
	return false
}
