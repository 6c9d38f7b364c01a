package locks

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"

	"lockproxy/internal/glob"
	"lockproxy/redlock"
	"lockproxy/redlock/index"
)

// inspectAhead is how many locks are read at the same time.
const inspectAhead = 32

var errNoMasters = errors.New("CLUSTERDOWN no master of the upstream is known: see whether it is up")

var errMastersChanged = errors.New(
	"TRYAGAIN the masters of the upstream changed while they were asked for their locks: ask again")

// Listed is one lock of a List.
type Listed struct {
	Name  string
	State redlock.State
}

// Listing says which locks a List is to find.
type Listing struct {
	Match string // a glob of Redis
	Count int    // so many at most
	// Scan looks through all keys, also for locks that the index lacks. Indexed never does: it fails with
	// index.ErrUnable if the index cannot be used.
	Scan, Indexed bool
	// Mine says that a lock belongs to this Locker; nil: they all do.
	Mine func(name string) bool
}

// List finds locks that are held or waited for, sorted by name. Each is asked for its state, 32 at a time. It
// takes them from the index. Without one it reads all keys of all masters, a thousand at a time. It blocks
// that long. It fails if any master cannot be asked. When ctx ends it returns its cause. names is how many
// names match in the index: some of these locks may be free by now.
func (l *Locker) List(ctx context.Context, of Listing) (found []Listed, names int, err error) {
	f := finder{l: l, ctx: ctx, of: of, seen: make(map[string]bool)}
	err = index.ErrUnable
	if !of.Scan {
		err = f.lookInIndex()
	}
	if errors.Is(err, index.ErrUnable) && !of.Indexed {
		err = f.scanAll()
	}
	if err != nil {
		return nil, 0, err
	}
	slices.SortFunc(f.found, func(a, b Listed) int { return cmp.Compare(a.Name, b.Name) })
	return f.found[:min(of.Count, len(f.found))], f.names, nil
}

// lookInIndex takes the names from the index.
func (f *finder) lookInIndex() error {
	names, err := f.l.Index.Names(f.ctx, f.of.Match)
	if err != nil {
		return err
	}
	names = slices.DeleteFunc(names, func(name string) bool { return !f.mine(name) })
	f.names = len(names)
	return f.inspectLocks(names)
}

// scanAll looks through all keys.
func (f *finder) scanAll() error {
	masters := f.l.engine.Masters()
	if masters == 0 {
		return errNoMasters
	}
	for i := range masters {
		if err := f.scanMaster(i); err != nil {
			return err
		}
	}
	if f.l.engine.Masters() != masters {
		return errMastersChanged
	}
	return nil
}

// mine says that the lock is one of those that are to be found.
func (f *finder) mine(name string) bool { return f.of.Mine == nil || f.of.Mine(name) }

// finder is one List. It is used by one goroutine.
type finder struct {
	l     *Locker
	ctx   context.Context
	of    Listing
	seen  map[string]bool // keys seen so far
	found []Listed
	names int // that the index has
}

// scanMaster reads the keys of the i-th master. It ends early once enough locks were found. The names are
// matched here: in its key a name stands in braces, or has a hash tag of its own.
func (f *finder) scanMaster(i int) error {
	cursor, all, match := "0", glob.Literal(f.l.names.Prefix)+"*", []byte(f.of.Match)
	for len(f.found) < f.of.Count {
		keys, next, err := f.l.engine.Scan(f.ctx, i, cursor, all)
		if err != nil {
			return err
		}
		var names []string
		for _, key := range keys {
			name, ok := f.l.names.LockOf(key)
			if ok && !f.seen[key] && glob.Match(match, []byte(name)) && f.mine(name) {
				f.seen[key] = true
				names = append(names, name)
			}
		}
		if err := f.inspectLocks(names); err != nil {
			return err
		}
		if cursor = next; cursor == "0" {
			break
		}
	}
	return nil
}

// inspectLocks reads locks and adds those that are in use to the list. A key that holds no lock is passed
// over; any other error ends the List.
func (f *finder) inspectLocks(names []string) error {
	for ahead := range slices.Chunk(names, inspectAhead) {
		if len(f.found) >= f.of.Count {
			return nil
		}
		states, errs := make([]redlock.State, len(ahead)), make([]error, len(ahead))
		var all sync.WaitGroup
		for i, name := range ahead {
			all.Go(func() { states[i], errs[i] = f.l.readState(f.ctx, name) })
		}
		all.Wait()
		for i, name := range ahead {
			switch {
			case errs[i] == nil && (states[i].Taken() || states[i].Waiters > 0):
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
