package commands

import (
	"bytes"
	"strings"

	"lockproxy/internal/resp"
)

// Inner is the command that args, one of c, run, and where it begins. nil: c runs none, or one that is not in
// the table.
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

// Guardable says why GUARD does not run args, a command; nil: it does. GUARD runs what goes to one node as it
// stands, does not wait, and may be in a script; and scripts, whose sources become part of its own.
func (c *Command) Guardable(args [][]byte) (refusal []byte) {
	blocks := false
	if c.Route == Blocks {
		_, blocks = c.Blocks(args)
	}
	why := ""
	switch {
	case c.Route == Refused:
		return c.Refusal()
	case c.Flags&LockVerb != 0:
		why = ": it is a lock verb itself"
	case c.Script == ScriptFunction:
		why = ": Redis lets no script call a function"
	case c.Flags&Scripted != 0 && strings.HasSuffix(c.Name, "_ro"):
		why = ": nothing would keep the script from writing, as EVAL does not"
	case c.Flags&Scripted != 0:
		if !c.Fits(len(args)) {
			return c.wrongArity()
		}
		return nil
	case blocks:
		why = ": it may block, and in a script nothing waits"
	case c.Flags&NoScript != 0:
		why = ": Redis lets no script run it"
	case c.Route != ByKeys && c.Route != Split && c.Route != Blocks && !c.publishes():
		why = ": it is not about keys"
	case !c.Fits(len(args)):
		return c.wrongArity()
	default:
		return c.dear(args)
	}
	return Refusal(c.Name, " inside GUARD"+why)
}

// JudgedInside says that Redis looks at rights while args run, and not only before: at those of whoever has
// sent the script, if they run in one. ACL DRYRUN says nothing of that. So it is with scripts, with commands
// of modules, which may find keys by an index, and with those whose keys the server itself cannot tell.
func (c *Command) JudgedInside(args [][]byte) bool {
	if c.Finds != nil {
		return c.Finds(args)
	}
	return c.Flags&(Scripted|OfModule) != 0 || c.askKeys
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

// publishes says that the command is PUBLISH or SPUBLISH.
func (c *Command) publishes() bool { return c.Flags&(PubSub|Replicates) == PubSub|Replicates }
