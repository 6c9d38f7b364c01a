package proxy

import (
	"lockproxy/cluster/pipe"
	"lockproxy/internal/resp"
	"lockproxy/proxy/client"
)

var ping = resp.AppendCommandStrings(nil, "PING")

// connection is what commands may change of a client's connection: it implements commands.Connection.
type connection struct{ s *session }

// Select implements commands.Connection. Whether the upstream has the database is known once a connection to
// it is there: if none is, one is made, and the later commands of the client wait for it.
func (c connection) Select(n int) {
	s := c.s
	mode := pipe.Mode{Proto: s.Proto, DB: n}
	if n == 0 || s.w.pool.Reaches(mode) {
		s.DB = n
		s.Reply(selected)
		return
	}
	s.SetHold(client.HoldOrder)
	s.Expect(func(reply []byte) []byte {
		if reply[0] == '-' && !s.w.pool.Reaches(mode) {
			return reply
		}
		s.DB = n
		return selected
	}, nil)
	s.Feed(s.w.pool.Send(pipe.Request{Mode: mode, Bytes: ping, To: s, Tag: s.current, Resend: true}))
}

var selected = []byte("+OK\r\n")
