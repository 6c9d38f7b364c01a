package lock

import (
	"cmp"
	"context"
	"slices"

	"lockproxy/redlock"
	"lockproxy/redlock/locks"
	"lockproxy/redlock/who"
)

// Seen is one lock, with the clients that are known to hold it and to wait for it.
type Seen struct {
	Name  string
	State redlock.State
	Known who.Known
}

// Look finds up to most locks that are held or waited for, as LOCKCTL LIST does, by name; names is how many
// the index has whose names match. Without an index it fails: nobody who only looks has all keys read. It
// blocks.
func (l *Lockers) Look(ctx context.Context, match string, most int) (all []Seen, names int, err error) {
	states := make(map[string]redlock.State)
	for _, engine := range l.all() {
		found, n, err := engine.Look(ctx, locks.Listing{Match: match, Count: most,
			Mine: func(name string) bool { return l.of([]byte(name)) == engine }})
		if err != nil {
			return nil, 0, err
		}
		names += n
		for _, one := range found {
			all = append(all, Seen{Name: one.Name, State: one.State})
		}
	}
	slices.SortFunc(all, func(a, b Seen) int { return cmp.Compare(a.Name, b.Name) })
	all = all[:min(most, len(all))]
	for i := range all {
		states[all[i].Name] = all[i].State
	}
	known := l.known(ctx, func(context.Context) bool { return true }, states)
	for i := range all {
		all[i].Known = known[all[i].Name]
	}
	return all, names, nil
}
