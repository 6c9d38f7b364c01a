package lock

import (
	"cmp"
	"context"
	"slices"

	"github.com/tidwall/redcon"

	"lockproxy/commands"
	"lockproxy/internal/resp"
	"lockproxy/redlock"
	"lockproxy/redlock/locks"
	"lockproxy/redlock/who"
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
// error, never a shorter list. It runs as a task, for it asks the index, and then each lock whose name it
// has.
func lockctlList(c *commands.Call, l *Lockers, a *arguments) error {
	of, proto, sees := a.listing, c.Client.Proto, l.sees(c)
	c.Task(commands.Returning(func(ctx context.Context) []byte {
		all, _, err := l.listLocks(ctx, of)
		if err != nil {
			return commands.ErrorReply(err)
		}
		known := l.knownClients(ctx, sees, all...)
		b := redcon.AppendArray(nil, len(all))
		for _, one := range all {
			pairs := resp.AppendBulks(nil, "name", one.Name)
			b = resp.AppendPairs(b, proto, appendState(pairs, proto, one.State, known[one.Name]))
		}
		return b
	}), nil)
	return nil
}

// listLocks is locks.Locker.List of all engines together. A lock that an engine has under a name that belongs
// to another one, perhaps since before the settings changed, is left out. It blocks. Each engine may give
// of.Count of them, so the first of all are among these.
func (l *Lockers) listLocks(
	ctx context.Context, of locks.Listing,
) (found []locks.Listed, names int, err error) {
	for _, engine := range l.engines() {
		// engine is this one in each round, so the functions differ
		of.Mine = func(name string) bool { return l.engineOf([]byte(name)) == engine }
		some, n, err := engine.List(ctx, of)
		if err != nil {
			return nil, 0, err
		}
		found, names = append(found, some...), names+n
	}
	slices.SortFunc(found, func(a, b locks.Listed) int { return cmp.Compare(a.Name, b.Name) })
	return found[:min(of.Count, len(found))], names, nil
}

// Seen is one lock, with the clients that are known to hold it and to wait for it. It is what the admin page
// shows.
type Seen struct {
	Name  string
	State redlock.State
	Known who.Known
}

// Look finds up to most locks that are held or waited for, as LOCKCTL LIST does, by name; names is how many
// the index has whose names match. Without an index it fails: nobody who only looks has all keys read. It
// blocks. It hides no addresses and users: whoever may see the admin page may see them.
func (l *Lockers) Look(ctx context.Context, match string, most int) (all []Seen, names int, err error) {
	found, names, err := l.listLocks(ctx, locks.Listing{Match: match, Count: most, Indexed: true})
	if err != nil {
		return nil, 0, err
	}
	known := l.knownClients(ctx, nil, found...)
	for _, one := range found {
		all = append(all, Seen{Name: one.Name, State: one.State, Known: known[one.Name]})
	}
	return all, names, nil
}
