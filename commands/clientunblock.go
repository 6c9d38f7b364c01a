package commands

import (
	"strconv"
	"strings"
)

// Unblocker is what CLIENT UNBLOCK asks of the session that runs it.
type Unblocker interface {
	// Unblock ends the wait of the client with that id, on whichever loop it is: as if its time were over, or
	// withError with an error. It answers the command with 1, or with 0 if that client
	// is not blocked.
	Unblock(id int64, withError bool)
}

// clientUnblock is CLIENT UNBLOCK id [TIMEOUT | ERROR].
func clientUnblock(c *Call) {
	if len(c.Args) > 4 {
		c.Reply(errorLine("ERR unknown subcommand or wrong number of arguments for '%.128s'. Try %s HELP.",
			c.Args[1], strings.ToUpper(string(c.Args[0]))))
		return
	}
	withError := false
	if len(c.Args) == 4 {
		withError = isWord(c.Args[3], "ERROR")
		if !withError && !isWord(c.Args[3], "TIMEOUT") {
			c.Reply(errorLine("ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR"))
			return
		}
	}
	id, err := strconv.ParseInt(string(c.Args[2]), 10, 64)
	if err != nil || strconv.FormatInt(id, 10) != string(c.Args[2]) {
		c.Reply(errInteger)
		return
	}
	c.Unblock(id, withError)
}
