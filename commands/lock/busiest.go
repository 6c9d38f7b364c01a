package lock

import (
	"cmp"
	"hash/maphash"
	"slices"
	"strings"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// Busiest counts what happens to recently used locks. Safe for concurrent use. A nil one counts nothing. It
// is for LOCKCTL STATS and the admin page, and nothing depends on it. A lock that falls out of its memory
// begins again at 0. Once the memory is full, a new lock counts from its second use.
type Busiest struct {
	most int
	seed maphash.Seed

	mu  sync.Mutex
	all *simplelru.LRU[string, *Count]
	// Hashes of names that came while all was full. A name is counted when it comes again: names of jobs are
	// used once, and would push busy locks out.
	once [1 << 10]uint64
}

// maxBusiestName is the length from which on the name of a lock is too long to be counted, in bytes. It
// bounds what the names take together.
const maxBusiestName = 4096

// NewBusiest counts each of so many locks, but for those with very long names. With 0 names or fewer it
// returns nil, which counts nothing.
func NewBusiest(names int) *Busiest {
	if names <= 0 {
		return nil
	}
	all, _ := simplelru.NewLRU[string, *Count](names, nil) // fails for no size below 1
	return &Busiest{most: names, seed: maphash.MakeSeed(), all: all}
}

// addCounts adds the counts of more to the lock. The lock counts as the one that was used last.
func (b *Busiest) addCounts(name string, more Count) {
	if b == nil || len(name) > maxBusiestName {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	c, ok := b.all.Get(name)
	if !ok {
		// A use that waits is told when it begins and when it ends.
		if b.all.Len() == b.most && (more.Waits > 0 || !b.cameBefore(name)) {
			return
		}
		c = &Count{Name: strings.Clone(name)} // name shares its memory with a token
		b.all.Add(c.Name, c)
	}
	c.Grants += more.Grants
	c.Refusals += more.Refusals
	c.Waits += more.Waits
}

// cameBefore says that a name has come before, as far as is remembered, and notes that it came. mu is held.
func (b *Busiest) cameBefore(name string) bool {
	hash := maphash.String(b.seed, name)
	last := &b.once[hash%uint64(len(b.once))]
	before := *last == hash
	*last = hash
	return before
}

// Count is what happened to one lock. Waits are counted when they begin, so they are among Grants or Refusals
// too when they end.
type Count struct {
	Name                    string
	Grants, Refusals, Waits uint64
}

// Top returns the n busiest locks, the busiest first. Locks with the same sum are in the order of their
// names, so that two looks show the same.
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

// sum is by what locks are ranked.
func (c Count) sum() uint64 { return c.Grants + c.Refusals + c.Waits }
