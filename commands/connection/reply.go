package connection

import (
	"lockproxy/commands"
	"lockproxy/internal/resp"
)

// clientReply is CLIENT REPLY ON|OFF|SKIP. Only ON is answered. SetReplies stands before Reply, since it
// holds from this command on: ON is answered although it was OFF before.
func clientReply(c *commands.Call) {
	switch {
	case resp.IsWord(c.Args[2], "ON"):
		c.Connection().SetReplies(commands.RepliesOn)
		c.Reply(resp.OK)
	case resp.IsWord(c.Args[2], "OFF"):
		c.Connection().SetReplies(commands.RepliesOff)
		c.Reply(nil)
	case resp.IsWord(c.Args[2], "SKIP"):
		c.Connection().SetReplies(commands.RepliesSkip)
		c.Reply(nil)
	default:
		c.Reply(resp.ErrSyntax)
	}
}
