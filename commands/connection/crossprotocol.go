package connection

import "lockproxy/commands"

// crossProtocol closes the connection of what seems to be an HTTP client, as Redis does: a web page can make
// a browser send POST requests to any address, and no line of these may run as a command. The words are
// "POST" and "Host:", as in securityWarningCommand of Redis.
func crossProtocol(c *commands.Call) {
	c.Reply(nil)
	c.Close()
}
