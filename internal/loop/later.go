package loop

import "time"

// RoundTime is how long a round may take before costly work is left to later rounds.
const RoundTime = 3 * time.Millisecond

// Later is work that waits for later rounds of a loop, in order. It belongs to the loop.
type Later struct {
	loop    *Loop
	waiting []func()
	posted  bool // takeAll will be called
}

// NewLater is without work.
func NewLater(l *Loop) *Later { return &Later{loop: l} }

// Late says that the round has taken so long that costly work is left to add, so that others have their turn
// first.
func (a *Later) Late() bool { return len(a.waiting) > 0 || a.long() }

// long says that the round has taken long.
func (a *Later) long() bool { return time.Since(a.loop.Now()) > RoundTime }

// Run runs f now, or in a later round if this one has taken long.
func (a *Later) Run(f func()) {
	if a.Late() {
		a.add(f)
		return
	}
	f()
}

// add makes f run in a later round, behind the work that waits already.
func (a *Later) add(f func()) {
	a.waiting = append(a.waiting, f)
	if !a.posted {
		a.posted = a.loop.Post(a.takeAll)
	}
}

// takeAll does work that waits: at least one piece, and as much as one round has time for.
func (a *Later) takeAll() {
	a.posted = false
	for len(a.waiting) > 0 {
		f := a.waiting[0]
		a.waiting[0], a.waiting = nil, a.waiting[1:]
		if f(); a.long() {
			break
		}
	}
	if len(a.waiting) == 0 {
		a.waiting = nil
	} else if !a.posted {
		a.posted = a.loop.Post(a.takeAll)
	}
}
