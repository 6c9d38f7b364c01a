package keepalive

import (
	"container/heap"
	"math"
	"time"
)

// never is a time that never comes.
const never = time.Duration(math.MaxInt64)

// timed is something that is due at a time and knows its place in a heap.
type timed interface {
	key() time.Duration
	place() *int32
}

// timerHeap is a heap of times that something is due at, the earliest in front.
type timerHeap[T timed] []T

func (l timerHeap[T]) Len() int           { return len(l) }
func (l timerHeap[T]) Less(i, j int) bool { return l[i].key() < l[j].key() }

// Swap implements heap.Interface.
func (l timerHeap[T]) Swap(i, j int) {
	l[i], l[j] = l[j], l[i]
	*l[i].place(), *l[j].place() = int32(i), int32(j)
}

// Push implements heap.Interface.
func (l *timerHeap[T]) Push(x any) {
	e := x.(T)
	*e.place() = int32(len(*l))
	*l = append(*l, e)
}

// Pop implements heap.Interface.
func (l *timerHeap[T]) Pop() any {
	last := len(*l) - 1
	e := (*l)[last]
	var none T
	(*l)[last] = none
	*l = (*l)[:last]
	*e.place() = -1
	return e
}

// put moves e to its place after its time has changed.
func (l *timerHeap[T]) put(e T) {
	if i := *e.place(); i >= 0 {
		heap.Fix(l, int(i))
	} else {
		heap.Push(l, e)
	}
}

// remove takes e out, if it is in.
func (l *timerHeap[T]) remove(e T) {
	if i := *e.place(); i >= 0 {
		heap.Remove(l, int(i))
	}
}
