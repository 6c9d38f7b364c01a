package proxy

import (
	"time"

	"lockproxy/internal/loop"
)

// turns is work that waits for later rounds of a loop, in order.
type turns struct {
	loop    *loop.Loop
	waiting []func()
	posted  bool // takeAll will be called
}

// late says that the round has taken so long that costly work is left to add, so that others have their turn
// first.
func (t *turns) late() bool { return len(t.waiting) > 0 || t.long() }

// long says that the round has taken long.
func (t *turns) long() bool { return time.Since(t.loop.Now()) > roundTime }

// run runs f now, or in a later round if this one has taken long.
func (t *turns) run(f func()) {
	if t.late() {
		t.add(f)
		return
	}
	f()
}

// add makes f run in a later round, behind the work that waits already.
func (t *turns) add(f func()) {
	t.waiting = append(t.waiting, f)
	if !t.posted {
		t.posted = t.loop.Post(t.takeAll)
	}
}

// takeAll does work that waits: at least one piece, and as much as one round has time for.
func (t *turns) takeAll() {
	t.posted = false
	for len(t.waiting) > 0 {
		f := t.waiting[0]
		t.waiting[0], t.waiting = nil, t.waiting[1:]
		if f(); t.long() {
			break
		}
	}
	if len(t.waiting) == 0 {
		t.waiting = nil
	} else if !t.posted {
		t.posted = t.loop.Post(t.takeAll)
	}
}
