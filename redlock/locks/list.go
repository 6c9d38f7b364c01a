package locks

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"

	"lockproxy/redlock"
)

const (
	// inspectAhead is how many locks are read at the same time.
	inspectAhead = 32
)

var errNoMasters = errors.New("CLUSTERDOWN no master of the upstream is known: see whether it is up")

var errMastersChanged = errors.New(
	"TRYAGAIN the masters of the upstream changed while they were asked for their locks: ask again")

// Listed is one lock of a List.
type Listed struct {
	Name  string
	State redlock.State
}

// List finds up to count locks that are held or waited for and whose name matches a glob of Redis, sorted by
// name. It reads all keys of all masters, a thousand at a time, and blocks that long. It fails if any master
// cannot be asked. When ctx ends it returns its cause.
func (l *Locker) List(ctx context.Context, glob string, count int) ([]Listed, error) {
	f := finder{l: l, ctx: ctx, count: count, seen: make(map[string]bool)}
	prefix := escapeGlob(l.names.Prefix)
	patterns := []pattern{{prefix + "{" + glob + "}", true}, {prefix + glob, false}}
	if strings.Trim(glob, "*") == "" {
		patterns = patterns[1:] // the first pattern finds the others too
	}
	masters := l.engine.Masters()
	if masters == 0 {
		return nil, errNoMasters
	}
	for i := range masters {
		for _, p := range patterns {
			if err := f.scan(i, p, len(patterns) == 1); err != nil {
				return nil, err
			}
		}
	}
	if l.engine.Masters() != masters {
		return nil, errMastersChanged
	}
	slices.SortFunc(f.found, func(a, b Listed) int { return cmp.Compare(a.Name, b.Name) })
	return f.found[:min(count, len(f.found))], nil
}

// pattern is a glob for keys: either for locks whose name stands in braces, or for those with a hash tag of
// their own.
type pattern struct {
	glob   string
	braced bool
}

// finder is one List.
type finder struct {
	l     *Locker
	ctx   context.Context
	count int
	seen  map[string]bool // keys seen so far
	found []Listed
}

// scan reads the keys of the i-th master. either: for locks of both kinds.
func (f *finder) scan(i int, p pattern, either bool) error {
	cursor := "0"
	for len(f.found) < f.count {
		keys, next, err := f.l.engine.Scan(f.ctx, i, cursor, p.glob)
		if err != nil {
			return err
		}
		var names []string
		for _, key := range keys {
			name, braced, ok := f.l.names.LockOf(key)
			if ok && (either || braced == p.braced) && !f.seen[key] {
				f.seen[key] = true
				names = append(names, name)
			}
		}
		if err := f.inspect(names); err != nil {
			return err
		}
		if cursor = next; cursor == "0" {
			break
		}
	}
	return nil
}

// inspect reads locks and adds those that are in use to the list.
func (f *finder) inspect(names []string) error {
	for ahead := range slices.Chunk(names, inspectAhead) {
		if len(f.found) >= f.count {
			return nil
		}
		states, errs := make([]redlock.State, len(ahead)), make([]error, len(ahead))
		var all sync.WaitGroup
		for i, name := range ahead {
			all.Go(func() { states[i], errs[i] = f.l.engine.State(f.ctx, name) })
		}
		all.Wait()
		for i, name := range ahead {
			switch {
			case errs[i] == nil && (len(states[i].Holders) > 0 || states[i].Waiters > 0):
				f.found = append(f.found, Listed{name, states[i]})
			case errs[i] != nil && !foreign(errs[i]):
				return errs[i]
			}
		}
	}
	return nil
}

// foreign says that err means that the key holds no lock.
func foreign(err error) bool {
	var said redlock.ReplyError
	return errors.As(err, &said) && strings.HasPrefix(string(said), "LOCKTYPE ")
}

// escapeGlob returns a glob that matches text alone.
func escapeGlob(text string) string {
	var b strings.Builder
	for i := range len(text) {
		if strings.IndexByte(`*?[]\^-`, text[i]) >= 0 {
			b.WriteByte('\\')
		}
		b.WriteByte(text[i])
	}
	return b.String()
}
