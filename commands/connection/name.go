package connection

import (
	"bytes"

	"github.com/tidwall/redcon"

	"lockproxy/commands"
	"lockproxy/internal/resp"
)

// The subcommands of CLIENT that concern the connection which sends them.

// clientSetName is CLIENT SETNAME name. An empty one takes the name away.
func clientSetName(c *commands.Call) []byte {
	if !printable(c.Args[2]) {
		return errName("Client names")
	}
	c.Client.Name = string(c.Args[2])
	return resp.OK
}

// clientGetName is CLIENT GETNAME: Null without a name.
func clientGetName(c *commands.Call) {
	if c.Client.Name == "" {
		c.Reply(resp.AppendNull(nil, c.Client.Proto))
		return
	}
	c.Reply(redcon.AppendBulkString(nil, c.Client.Name))
}

// clientID is CLIENT ID. The id is one of this proxy, and no node knows it.
func clientID(c *commands.Call) { c.Reply(redcon.AppendInt(nil, c.Client.ID)) }

// clientSetInfo is CLIENT SETINFO LIB-NAME | LIB-VER text, which libraries send by themselves. It is for
// people who read CLIENT LIST.
func clientSetInfo(c *commands.Call) []byte {
	option, value := c.Args[2], c.Args[3]
	var what string
	var field *string
	switch {
	case resp.IsWord(option, "LIB-NAME"):
		what, field = "lib-name", &c.Client.LibName
	case resp.IsWord(option, "LIB-VER"):
		what, field = "lib-ver", &c.Client.LibVersion
	default:
		return resp.ErrorLine("ERR Unrecognized option '%s'", option)
	}
	if !printable(value) {
		return errName(what)
	}
	*field = string(value)
	return resp.OK
}

// Both are properties of the client for the proxy: NO-EVICT keeps it when all clients together take too much
// memory, and both are shown in CLIENT LIST.
func clientNoEvict(c *commands.Call) { toggle(c, &c.Client.NoEvict) }
func clientNoTouch(c *commands.Call) { toggle(c, &c.Client.NoTouch) }

// toggle sets a property of the client by the ON or OFF of the third argument.
func toggle(c *commands.Call, property *bool) {
	on := resp.IsWord(c.Args[2], "ON")
	if !on && !resp.IsWord(c.Args[2], "OFF") {
		c.Reply(resp.ErrSyntax)
		return
	}
	*property = on
	c.Reply(resp.OK)
}

// printable says that b can stand in a line of CLIENT INFO. A blank would end its field there, and a line
// break would begin another client. Empty is printable.
func printable(b []byte) bool {
	return !bytes.ContainsFunc(b, func(r rune) bool { return r < '!' || r > '~' })
}

// errName has Redis's words; what names the thing that was given.
func errName(what string) []byte {
	return resp.ErrorLine("ERR %s cannot contain spaces, newlines or special characters.", what)
}
