package lock

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/tidwall/redcon"

	"lockproxy/commands"
	"lockproxy/internal/resp"
	"lockproxy/redlock/locks"
)

// How many locks LOCKCTL LIST shows: without COUNT, and at most.
const (
	listCount    = 100
	maxListCount = 10_000
)

// lockctlList is
//
//	LOCKCTL LIST [MATCH glob] [COUNT n]
//
// Reply: array of maps, by name: name, and what LOCKCTL INFO says. If a node cannot be asked the reply is an
// error, never a shorter list.
func lockctlList(c *commands.Call, l *Lockers, verb *commands.Command) {
	glob, count, err := listArgs(c.Args[2:])
	if err != nil {
		c.Reply(commands.ErrorReply(verb.Usage(err)))
		return
	}
	proto := c.Client.Proto
	c.Task(func(ctx context.Context) []byte {
		all, err := l.list(ctx, glob, count)
		if err != nil {
			return commands.ErrorReply(err)
		}
		b := redcon.AppendArray(nil, len(all))
		for _, one := range all {
			b = resp.AppendMap(b, proto, 1+statePairs)
			b = appendPair(b, "name", one.Name)
			b = appendState(b, proto, one.State)
		}
		return b
	}, nil)
}

// list lists the locks of all engines, as Locker.List does for one. A lock that an engine has under a name
// that belongs to another one, perhaps since before the settings changed, is left out.
func (l *Lockers) list(ctx context.Context, glob string, count int) ([]locks.Listed, error) {
	var found []locks.Listed
	for _, engine := range l.all() {
		some, err := engine.List(ctx, glob, count)
		if err != nil {
			return nil, err
		}
		for _, one := range some {
			if l.of([]byte(one.Name)) == engine {
				found = append(found, one)
			}
		}
	}
	slices.SortFunc(found, func(a, b locks.Listed) int { return cmp.Compare(a.Name, b.Name) })
	return found[:min(count, len(found))], nil
}

// listArgs reads the options of LIST.
func listArgs(args [][]byte) (glob string, count int, err error) {
	glob, count = "*", listCount
	seen := map[string]bool{}
	for ; len(args) > 0; args = args[2:] {
		word := strings.ToUpper(string(resp.Clip(args[0])))
		switch {
		case word != "MATCH" && word != "COUNT":
			return "", 0, fmt.Errorf("%q is no option of LOCKCTL LIST", resp.Clip(args[0]))
		case seen[word]:
			return "", 0, fmt.Errorf("%s is given twice", word)
		case len(args) == 1:
			return "", 0, fmt.Errorf("%s needs a value", word)
		case word == "MATCH":
			glob = string(args[1])
		default:
			n, err := integerArg("COUNT", args[1], 1, maxListCount, "")
			if err != nil {
				return "", 0, err
			}
			count = int(n)
		}
		seen[word] = true
	}
	return glob, count, nil
}
