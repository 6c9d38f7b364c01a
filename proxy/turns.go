package proxy

import "time"

// turns is work that waits for later rounds of the loop, in its order.
type turns struct {
	waiting []func()
	posted  bool // takeTurns is going to be called
}

// late says that the round has taken so long that others have their turn before anything costly is done: it
// is left to inTurn.
func (w *worker) late() bool {
	return len(w.turns.waiting) > 0 || time.Since(w.loop.Now()) > roundTime
}

// inTurn has f run in a later round, behind what waits already.
func (w *worker) inTurn(f func()) {
	t := &w.turns
	t.waiting = append(t.waiting, f)
	if !t.posted {
		t.posted = w.loop.Post(w.takeTurns)
	}
}

// takeTurns runs what waits: one at least, and as many as one round has time for.
func (w *worker) takeTurns() {
	t := &w.turns
	t.posted = false
	for len(t.waiting) > 0 {
		f := t.waiting[0]
		t.waiting[0], t.waiting = nil, t.waiting[1:]
		if f(); time.Since(w.loop.Now()) > roundTime {
			break
		}
	}
	if len(t.waiting) == 0 {
		t.waiting = nil
	} else if !t.posted {
		t.posted = w.loop.Post(w.takeTurns)
	}
}
