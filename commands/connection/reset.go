package connection

import (
	"lockproxy/commands"
	"lockproxy/internal/resp"
)

// quit ends the connection behind the messages that were published so far. Locks that it kept alive are
// released, and it waits for no more: this is an end in good order, in which nothing lingers.
func quit(c *commands.Call) {
	c.Client.Waits.Close(commands.ErrEnded)
	c.Client.Keepalives.Close()
	// the call is over when the messages are
	actions := c.Actions
	actions.Subscriptions().End(func() []byte {
		actions.Close()
		return resp.OK
	})
}

// reset puts the connection back to the state in which it was accepted. Locks that it kept alive are
// released, as if it had been closed. What other clients see of it, its id and addresses, stays, and so does
// what a library says of itself.
func reset(c *commands.Call) {
	c.Connection().Reset()
	client, server := c.Client, c.Server
	client.Waits.Close(commands.ErrEnded)
	client.Keepalives.Close()
	c.Subscriptions().End(func() []byte {
		// only now, because messages may still come in the protocol that it spoke
		client.Reset(server, !server.AuthRequired())
		return replyReset
	})
}

var replyReset = []byte("+RESET\r\n")
