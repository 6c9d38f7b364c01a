package commands

import (
	"bytes"

	"lockproxy/internal/resp"
)

// Inner is the command that args, one of c, run, and where it begins. nil: c runs none, or one that is not in
// the table. Its subcommand is found too. Whether its arguments are right is not looked at.
func (c *Command) Inner(args [][]byte) (inner *Command, at int) {
	if c.InnerAt == nil || c.table == nil {
		return nil, 0
	}
	if at = c.InnerAt(args); at == 0 || at >= len(args) {
		return nil, 0
	}
	if inner, _ = c.table.Resolve(args[at:]); inner == c.table.unknown {
		return nil, 0
	}
	return inner, at
}

// FindsByPattern is for SORT: the patterns of BY and GET make names of keys from what the key holds. BY
// without an asterisk only says that nothing is sorted.
func FindsByPattern(args [][]byte) bool {
	for i, arg := range args[min(2, len(args)):] {
		by := resp.IsWord(arg, "BY") && len(args) > i+3 && bytes.IndexByte(args[i+3], '*') >= 0
		if by || resp.IsWord(arg, "GET") {
			return true
		}
	}
	return false
}
