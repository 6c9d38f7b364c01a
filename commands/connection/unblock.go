package connection

import (
	"lockproxy/commands"
	"lockproxy/internal/resp"
)

// clientUnblock is CLIENT UNBLOCK id [TIMEOUT | ERROR]. It reaches clients on all loops: those that block at
// a node, and those that wait for a lock.
func clientUnblock(c *commands.Call) []byte {
	withError := len(c.Args) == 4 && resp.IsWord(c.Args[3], "ERROR")
	id, ok := resp.Integer(c.Args[2])
	switch {
	case len(c.Args) > 4:
		return commands.UnknownOrArity(c.Args)
	case len(c.Args) == 4 && !withError && !resp.IsWord(c.Args[3], "TIMEOUT"):
		return resp.ErrorLine("ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR")
	case !ok:
		return resp.ErrInteger
	}
	c.Clients().Unblock(id, withError)
	return nil
}
