package proxy

import (
	"time"

	"lockproxy/internal/loop"
)

// turns is work that waits for later rounds of a loop, in its order.
type turns struct {
	loop    *loop.Loop
	waiting []func()
	posted  bool // takeAll is going to be called
}

// late says that the round has taken so long that others have their turn before anything costly is done: it
// is left to add.
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

// add has f run in a later round, behind what waits already.
func (t *turns) add(f func()) {
	t.waiting = append(t.waiting, f)
	if !t.posted {
		t.posted = t.loop.Post(t.takeAll)
	}
}

// takeAll runs what waits: one at least, and as many as one round has time for.
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
