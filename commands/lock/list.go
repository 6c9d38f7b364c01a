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
	"lockproxy/redlock"
	"lockproxy/redlock/locks"
)

// How many locks LOCKCTL LIST shows: without COUNT, and at most.
const (
	listCount    = 100
	maxListCount = 10_000
)

// lockctlList is
//
//	LOCKCTL LIST [MATCH glob] [COUNT n] [SCAN]
//
// SCAN looks through all keys, also for locks that the index of held locks lacks.
//
// Reply: array of maps, by name: name, and what LOCKCTL INFO says. If a node cannot be asked the reply is an
// error, never a shorter list.
func lockctlList(c *commands.Call, l *Lockers, verb *commands.Command) {
	of, err := listArgs(c.Args[2:])
	if err != nil {
		c.Reply(commands.ErrorReply(verb.Usage(err)))
		return
	}
	proto, sees := c.Client.Proto, l.sees(c)
	c.Task(commands.Returning(func(ctx context.Context) []byte {
		all, err := l.list(ctx, of)
		if err != nil {
			return commands.ErrorReply(err)
		}
		states := make(map[string]redlock.State, len(all))
		for _, one := range all {
			states[one.Name] = one.State
		}
		known := l.known(ctx, sees, states)
		b := redcon.AppendArray(nil, len(all))
		for _, one := range all {
			b = resp.AppendMap(b, proto, 1+statePairs(&one.State))
			b = appendPair(b, "name", one.Name)
			b = appendState(b, proto, one.State, known[one.Name])
		}
		return b
	}), nil)
}

// list lists the locks of all engines, as Locker.List does for one. A lock that an engine has under a name
// that belongs to another one, perhaps since before the settings changed, is left out.
func (l *Lockers) list(ctx context.Context, of locks.Listing) ([]locks.Listed, error) {
	var found []locks.Listed
	for _, engine := range l.all() {
		of.Mine = func(name string) bool { return l.of([]byte(name)) == engine }
		some, err := engine.List(ctx, of)
		if err != nil {
			return nil, err
		}
		found = append(found, some...)
	}
	slices.SortFunc(found, func(a, b locks.Listed) int { return cmp.Compare(a.Name, b.Name) })
	return found[:min(of.Count, len(found))], nil
}

// listArgs reads the options of LIST.
func listArgs(args [][]byte) (of locks.Listing, err error) {
	of = locks.Listing{Match: "*", Count: listCount}
	seen := map[string]bool{}
	for len(args) > 0 {
		word, size := strings.ToUpper(string(resp.Clip(args[0]))), 2
		switch {
		case word != "MATCH" && word != "COUNT" && word != "SCAN":
			return of, fmt.Errorf("%q is no option of LOCKCTL LIST", resp.Clip(args[0]))
		case seen[word]:
			return of, fmt.Errorf("%s is given twice", word)
		case word == "SCAN":
			of.Scan, size = true, 1
		case len(args) == 1:
			return of, fmt.Errorf("%s needs a value", word)
		case word == "MATCH":
			of.Match = string(args[1])
		default:
			n, err := integerArg("COUNT", args[1], 1, maxListCount, "")
			if err != nil {
				return of, err
			}
			of.Count = int(n)
		}
		seen[word] = true
		args = args[size:]
	}
	return of, nil
}
