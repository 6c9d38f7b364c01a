package keepalive

import (
	"container/heap"
	"math"
	"time"
)

// never is a time that never comes.
const never = time.Duration(math.MaxInt64)

// date is when something is due for its owner, who may stand in an agenda by it. The zero place is in none.
type date[T any] struct {
	at time.Duration
	// Its index in the heap, plus one. The heap keeps it, so that a date is moved without being looked for.
	place int32
	owner T
}

// agenda is a heap of dates, the earliest in front. It knows nothing of what is due: whoever takes the first
// one does that. Renewer.mu guards all agendas.
type agenda[T any] []*date[T]

// firstDue is when the first thing is due.
func (a agenda[T]) firstDue() time.Duration {
	if len(a) == 0 {
		return never
	}
	return a[0].at
}

// putDate puts d into its place for that time, also if it stood in another one.
func (a *agenda[T]) putDate(d *date[T], at time.Duration) {
	if d.at = at; d.place > 0 {
		heap.Fix(a, int(d.place-1))
	} else {
		heap.Push(a, d)
	}
}

// removeDate takes d out, if it is in.
func (a *agenda[T]) removeDate(d *date[T]) {
	if d.place > 0 {
		heap.Remove(a, int(d.place-1))
	}
}

func (a agenda[T]) Len() int           { return len(a) }
func (a agenda[T]) Less(i, j int) bool { return a[i].at < a[j].at }

// Swap implements heap.Interface.
func (a agenda[T]) Swap(i, j int) {
	a[i], a[j] = a[j], a[i]
	a[i].place, a[j].place = int32(i+1), int32(j+1)
}

// Push implements heap.Interface.
func (a *agenda[T]) Push(x any) {
	*a = append(*a, x.(*date[T]))
	(*a)[len(*a)-1].place = int32(len(*a))
}

// Pop implements heap.Interface.
func (a *agenda[T]) Pop() any {
	last := len(*a) - 1
	d := (*a)[last]
	d.place, (*a)[last], *a = 0, nil, (*a)[:last]
	return d
}
