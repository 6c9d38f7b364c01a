package lock

import (
	"cmp"
	"slices"
	"strings"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// Busiest counts what happens to recently used locks. Safe for concurrent use. A nil one counts nothing.
type Busiest struct {
	mu  sync.Mutex
	all *simplelru.LRU[string, *Count]
}

// maxBusiestName is the length from which on the name of a lock is too long to be counted.
const maxBusiestName = 4096

// NewBusiest counts each of so many locks, those that were used last, but for those with very long names.
func NewBusiest(names int) *Busiest {
	if names <= 0 {
		return nil
	}
	all, _ := simplelru.NewLRU[string, *Count](names, nil) // fails for no size below 1
	return &Busiest{all: all}
}

// ended notes how a LOCK ended.
func (b *Busiest) ended(name string, granted bool) {
	if granted {
		b.count(name, Count{Grants: 1})
	} else {
		b.count(name, Count{Refusals: 1})
	}
}

// waited notes that a LOCK has to wait.
func (b *Busiest) waited(name string) { b.count(name, Count{Waits: 1}) }

// count adds the counts of more to the lock.
func (b *Busiest) count(name string, more Count) {
	if b == nil || len(name) > maxBusiestName {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	c, ok := b.all.Get(name)
	if !ok {
		c = &Count{Name: strings.Clone(name)} // name shares its memory with a token
		b.all.Add(c.Name, c)
	}
	c.Grants += more.Grants
	c.Refusals += more.Refusals
	c.Waits += more.Waits
}

// Count is what happened to one lock.
type Count struct {
	Name                    string
	Grants, Refusals, Waits uint64
}

// Top returns the n busiest locks, the busiest first.
func (b *Busiest) Top(n int) []Count {
	if b == nil {
		return nil
	}
	b.mu.Lock()
	all := make([]Count, 0, b.all.Len())
	for _, c := range b.all.Values() {
		all = append(all, *c)
	}
	b.mu.Unlock()
	slices.SortFunc(all, func(x, y Count) int {
		return cmp.Or(cmp.Compare(y.sum(), x.sum()), strings.Compare(x.Name, y.Name))
	})
	return all[:min(n, len(all))]
}

func (c Count) sum() uint64 { return c.Grants + c.Refusals + c.Waits }
