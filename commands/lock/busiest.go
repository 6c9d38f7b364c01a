package lock

import (
	"cmp"
	"hash/maphash"
	"slices"
	"strings"
	"sync"
)

// Busiest counts what happens to recently used locks. Safe for concurrent use. A nil one counts nothing.
//
// A LOCK that is granted is counted on its way, so a name that comes for the first time must cost little: it
// takes the place, and the memory, of that name of its set which was used least recently.
type Busiest struct {
	seed maphash.Seed
	sets []tallies // a name belongs to one by its hash
}

// tallies are a few names that share a mutex.
type tallies struct {
	mu  sync.Mutex
	use uint64 // of the set so far
	all [8]tally
}

// tally counts what happened to one lock.
type tally struct {
	hash                    uint64 // of the name: most others differ in it
	name                    []byte
	lastUse                 uint64 // 0: there is no lock here yet
	grants, refusals, waits uint64
}

// maxBusiestName is the length from which on the name of a lock is too long to be counted.
const maxBusiestName = 4096

// NewBusiest counts each of about as many locks as names says, those that were used last, but for those with
// very long names.
func NewBusiest(names int) *Busiest {
	if names <= 0 {
		return nil
	}
	perSet := len(tallies{}.all)
	return &Busiest{maphash.MakeSeed(), make([]tallies, (names+perSet-1)/perSet)}
}

// ended notes how a LOCK ended.
func (b *Busiest) ended(name string, granted bool) {
	if granted {
		b.count(name, tally{grants: 1})
	} else {
		b.count(name, tally{refusals: 1})
	}
}

// waited notes that a LOCK has to wait.
func (b *Busiest) waited(name string) { b.count(name, tally{waits: 1}) }

// count adds the counts of more to the lock.
func (b *Busiest) count(name string, more tally) {
	if b == nil || len(name) > maxBusiestName {
		return
	}
	hash := maphash.String(b.seed, name)
	set := &b.sets[hash%uint64(len(b.sets))]
	set.mu.Lock()
	defer set.mu.Unlock()
	t := set.of(name, hash)
	set.use++
	t.lastUse = set.use
	t.grants += more.grants
	t.refusals += more.refusals
	t.waits += more.waits
}

// of is the tally of a lock, whose name has that hash. mu is held.
func (set *tallies) of(name string, hash uint64) *tally {
	oldest := &set.all[0]
	for i := range set.all {
		t := &set.all[i]
		if t.hash == hash && t.lastUse > 0 && string(t.name) == name {
			return t
		}
		if t.lastUse < oldest.lastUse {
			oldest = t
		}
	}
	*oldest = tally{hash: hash, name: append(oldest.name[:0], name...)}
	return oldest
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
	var all []Count
	for i := range b.sets {
		all = append(all, b.sets[i].counts()...)
	}
	slices.SortFunc(all, func(x, y Count) int {
		return cmp.Or(cmp.Compare(y.sum(), x.sum()), strings.Compare(x.Name, y.Name))
	})
	return all[:min(n, len(all))]
}

func (set *tallies) counts() (all []Count) {
	set.mu.Lock()
	defer set.mu.Unlock()
	for i := range set.all {
		if t := &set.all[i]; t.lastUse > 0 {
			all = append(all, Count{string(t.name), t.grants, t.refusals, t.waits})
		}
	}
	return all
}

func (c Count) sum() uint64 { return c.Grants + c.Refusals + c.Waits }
