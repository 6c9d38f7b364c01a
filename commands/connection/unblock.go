package connection

import (
	"strconv"

	"lockproxy/commands"
	"lockproxy/internal/resp"
)

// clientUnblock is CLIENT UNBLOCK id [TIMEOUT | ERROR]. It reaches clients on all loops: those that block at
// a node, and those that wait for a lock.
func clientUnblock(c *commands.Call) {
	if len(c.Args) > 4 {
		c.Reply(commands.UnknownOrArity(c.Args))
		return
	}
	withError := false
	if len(c.Args) == 4 {
		withError = resp.IsWord(c.Args[3], "ERROR")
		if !withError && !resp.IsWord(c.Args[3], "TIMEOUT") {
			c.Reply(resp.ErrorLine("ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR"))
			return
		}
	}
	// Redis takes no other spelling of a number: no plus sign, no leading zeros.
	id, err := strconv.ParseInt(string(c.Args[2]), 10, 64)
	if err != nil || strconv.FormatInt(id, 10) != string(c.Args[2]) {
		c.Reply(resp.ErrInteger)
		return
	}
	c.Clients().Unblock(id, withError)
}
