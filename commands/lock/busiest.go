package lock

import (
	"cmp"
	"slices"
	"strings"
	"sync/atomic"

	lru "github.com/hashicorp/golang-lru/v2"
)

// busiest counts what happens to recently used locks. Safe for concurrent use. A nil one counts nothing.
type busiest struct{ byName *lru.Cache[string, *tally] }

// tally counts what happened to one lock.
type tally struct{ grants, refusals, waits atomic.Uint64 }

// maxBusiestName is the length from which on the name of a lock is too long to be counted.
const maxBusiestName = 4096

// newBusiest counts each of the names locks that were used last, but for those with very long names.
func newBusiest(names int) *busiest {
	if names <= 0 {
		return nil
	}
	byName, _ := lru.New[string, *tally](names) // fails only for sizes below 1
	return &busiest{byName}
}

// of returns the tally of a lock.
func (b *busiest) of(name string) *tally {
	t, ok := b.byName.Get(name)
	if !ok && len(name) <= maxBusiestName {
		t = new(tally)
		name = strings.Clone(name) // the original may share memory with a token
		if old, ok, _ := b.byName.PeekOrAdd(name, t); ok {
			t = old
		}
	}
	return t
}

// ended notes how a LOCK ended.
func (b *busiest) ended(name string, granted bool) {
	if b == nil {
		return
	}
	switch t := b.of(name); {
	case t == nil:
	case granted:
		t.grants.Add(1)
	default:
		t.refusals.Add(1)
	}
}

// waited notes that a LOCK has to wait.
func (b *busiest) waited(name string) {
	if b == nil {
		return
	}
	if t := b.of(name); t != nil {
		t.waits.Add(1)
	}
}

// count is what happened to one lock, for LOCKCTL STATS.
type count struct {
	name                    string
	grants, refusals, waits uint64
}

// top returns the n busiest locks, the busiest first.
func (b *busiest) top(n int) []count {
	if b == nil {
		return nil
	}
	var all []count
	for _, name := range b.byName.Keys() {
		if t, ok := b.byName.Peek(name); ok {
			all = append(all, count{name, t.grants.Load(), t.refusals.Load(), t.waits.Load()})
		}
	}
	slices.SortFunc(all, func(x, y count) int {
		return cmp.Or(cmp.Compare(y.sum(), x.sum()), cmp.Compare(x.name, y.name))
	})
	return all[:min(n, len(all))]
}

func (c count) sum() uint64 { return c.grants + c.refusals + c.waits }
