package connection

import "lockproxy/commands"

// crossProtocol ends the connection of what seems to be an HTTP client, as
// Redis does: a web page can have a browser send POST requests to any address,
// and no line of them may be run as a command.
func crossProtocol(c *commands.Call) {
	c.Reply(nil)
	c.Close()
}
