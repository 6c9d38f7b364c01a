package single

import "sync"

// turns makes requests in steps about the same lock run one after the other, in the order in which they
// came. The zero value is ready.
type turns struct {
	mu   sync.Mutex
	last map[string]chan struct{} // by name of the lock; closed when that turn is over
}

// take queues for a turn. The caller waits until before is closed, unless it is nil, and calls over at the
// end.
func (t *turns) take(name string) (before <-chan struct{}, over func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.last == nil {
		t.last = make(map[string]chan struct{})
	}
	before = t.last[name]
	mine := make(chan struct{})
	t.last[name] = mine
	return before, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		close(mine)
		if t.last[name] == mine {
			delete(t.last, name)
		}
	}
}
