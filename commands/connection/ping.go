package connection

import (
	"bytes"

	"lockproxy/commands"
	"lockproxy/commands/merge"
	"lockproxy/internal/resp"

	"github.com/tidwall/redcon"
)

// ping answers for the upstream, unless a script keeps it from answering. While a script runs the masters are
// asked: a client uses PING to learn whether the servers answer.
func ping(c *commands.Call) {
	subscribed := c.Client.Subscribed() && c.Client.Proto == 2
	if c.Nodes().Busy() && len(c.Args) <= 2 && !subscribed {
		c.AskAll(c.Raw, commands.Reread, merge.First)
		return
	}
	switch {
	// in Redis, too, the arity allows any number of arguments, and PING itself refuses them
	case len(c.Args) > 2:
		c.Reply(c.Command.WrongArity())
	case subscribed: // then everything that the client gets has this form, also while a script runs
		out := resp.AppendBulks(redcon.AppendArray(nil, 2), "pong")
		c.Reply(redcon.AppendBulk(out, bytes.Join(c.Args[1:], nil)))
	case len(c.Args) == 2:
		echo(c)
	default:
		c.Reply(replyPong)
	}
}

// echo answers with the argument. So PING with a text is answered too.
func echo(c *commands.Call) {
	arg := c.Args[1]
	c.ReplyAbout(arg, func() []byte { return redcon.AppendBulk(make([]byte, 0, len(arg)+32), arg) })
}

var replyPong = []byte("+PONG\r\n")
