package loop

import "time"

// RoundTime is how long a round may take before costly work is left to later rounds. A client whose command
// has come in the meantime waits for the rest of the round.
const RoundTime = 3 * time.Millisecond

// Later is work that waits for later rounds of a loop, in order. It belongs to the loop.
type Later struct {
	loop *Loop
	// the oldest first
	waiting []func()
	posted  bool // runWaiting will be called
}

// NewLater is without work.
func NewLater(l *Loop) *Later { return &Later{loop: l} }

// Late says that the round has taken so long that costly work is left to add, so that others have their turn
// first. Work that waits already makes a round late whatever the time is: what comes now must not overtake
// it.
func (a *Later) Late() bool { return len(a.waiting) > 0 || a.tookLong() }

// tookLong says that the round has taken long.
func (a *Later) tookLong() bool { return time.Since(a.loop.Now()) > RoundTime }

// Run runs f now, or in a later round if this one has taken long.
func (a *Later) Run(f func()) {
	if a.Late() {
		a.addWork(f)
		return
	}
	f()
}

// addWork makes f run in a later round, behind the work that waits already.
func (a *Later) addWork(f func()) {
	a.waiting = append(a.waiting, f)
	if !a.posted {
		// false once the loop is closed: then the work is dropped with it
		a.posted = a.loop.Post(a.runWaiting)
	}
}

// runWaiting does work that waits: at least one piece, and as much as one round has time for.
func (a *Later) runWaiting() {
	a.posted = false
	for len(a.waiting) > 0 {
		f := a.waiting[0]
		// the array would keep what f holds for as long as any work waits
		a.waiting[0], a.waiting = nil, a.waiting[1:]
		if f(); a.tookLong() {
			break
		}
	}
	if len(a.waiting) == 0 {
		// gives up the array, which may have been long once
		a.waiting = nil
	} else if !a.posted {
		a.posted = a.loop.Post(a.runWaiting)
	}
}
