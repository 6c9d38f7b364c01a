package pipe

import (
	"maps"
	"slices"
	"time"

	"lockproxy/internal/loop"
)

// rests is what waits on a loop until it is tried again.
type rests struct {
	timers *loop.Loop
	all    map[*rest]struct{}
	told   bool // news will come in the next round
}

// rest is one of them.
type rest struct {
	again func()
	timer *time.Timer
}

// Rest calls again, on the loop, after a pause, or earlier if there is news: another topology, or a master
// that answers again. Nothing calls it off.
func (r *rests) Rest(pause time.Duration, again func()) {
	one := &rest{again: again}
	r.all[one] = struct{}{}
	one.timer = r.timers.After(pause, func() { r.wake(one) })
}

func (r *rests) wake(one *rest) {
	if _, rests := r.all[one]; rests {
		delete(r.all, one)
		one.timer.Stop()
		one.again()
	}
}

func (r *rests) wakeAll() {
	for _, one := range slices.Collect(maps.Keys(r.all)) {
		r.wake(one)
	}
}
