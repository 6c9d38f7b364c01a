package lock

import (
	"bytes"
	"errors"
	"fmt"

	"lockproxy/commands"
	"lockproxy/internal/resp"
)

// maxPattern bounds the length of MATCH.
const maxPattern = 1024

// errNoEvents is for LOCKCTL WATCH where nobody tells of events.
var errNoEvents = errors.New("ERR LOCKCTL WATCH needs the setting lock-events yes, at all proxies: only " +
	"then do they tell what happens to locks")

// watchVerb is
//
//	LOCKCTL WATCH [MATCH glob]
//
// Reply: OK, and then, until RESET or QUIT, a push for each event of a lock whose name matches, of any proxy.
func watchVerb(l *Lockers) *commands.Command {
	verb := &commands.Command{
		Name: "lockctl|watch", Arity: -2, Flags: commands.ReadOnly | commands.NoMulti,
		Needs: allLocksRights(l),
		Docs: &commands.Docs{
			Summary: "Shows what happens to locks, as it happens, at all proxies.", Complexity: "O(1)",
			Arguments: []commands.Argument{
				{Name: "pattern", Type: "pattern", Token: "MATCH", Optional: true},
			},
		},
	}
	verb.Run = func(c *commands.Call) { lockctlWatch(c, l, verb) }
	return verb
}

func lockctlWatch(c *commands.Call, l *Lockers, verb *commands.Command) {
	match, err := watchArgs(c.Args[2:])
	switch {
	case err != nil:
		c.Reply(commands.ErrorReply(verb.Usage(err)))
	case !l.Events:
		c.Reply(commands.ErrorReply(errNoEvents))
	default:
		c.Connection().WatchLocks(match)
	}
}

// watchArgs reads the options of WATCH.
func watchArgs(args [][]byte) (match []byte, err error) {
	switch {
	case len(args) == 0:
		return []byte("*"), nil
	case !resp.IsWord(args[0], "MATCH"):
		return nil, fmt.Errorf("%q is no option of LOCKCTL WATCH", resp.Clip(args[0]))
	case len(args) == 1:
		return nil, errors.New("MATCH needs a value")
	case len(args) > 2:
		return nil, fmt.Errorf("%q is one argument too many", resp.Clip(args[2]))
	case len(args[1]) > maxPattern:
		return nil, fmt.Errorf("the pattern of MATCH has %d bytes at most, this one has %d", maxPattern,
			len(args[1]))
	}
	return bytes.Clone(args[1]), nil
}
