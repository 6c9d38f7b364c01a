package commands

import (
	"bytes"

	"github.com/tidwall/redcon"
)

// ping answers for the upstream, unless a script keeps it from answering.
func ping(c *Call) {
	if c.Busy() && len(c.Args) <= 2 {
		c.Broadcast(c.Raw, true, mergeFirst)
		return
	}
	switch {
	case len(c.Args) > 2:
		c.Reply(wrongArity("ping"))
	case c.Client.Subscribed() && c.Client.Proto == 2: // then all that the client gets has this form
		out := appendBulks(redcon.AppendArray(nil, 2), "pong")
		c.Reply(redcon.AppendBulk(out, bytes.Join(c.Args[1:], nil)))
	case len(c.Args) == 2:
		c.Reply(redcon.AppendBulk(nil, c.Args[1]))
	default:
		c.Reply(replyPong)
	}
}

func echo(c *Call) { c.Reply(redcon.AppendBulk(nil, c.Args[1])) }

// sayOK answers commands that ask for what is so anyhow.
func sayOK(c *Call) { c.Reply(replyOK) }
