// Package queue has the queues of a connection whose replies come in the order of the requests: a Ring of
// what is known of each request, and a Backlog of their bytes.
package queue

// Ring is a queue that re-uses its memory.
type Ring[T any] struct {
	buf  []T // their number is a power of two
	from int
	n    int
}

// Len is how many there are.
func (r *Ring[T]) Len() int { return r.n }

// Head is the oldest, valid until Push and Pop.
func (r *Ring[T]) Head() *T { return &r.buf[r.from] }

// At is the i-th, counted from the head, valid as that is.
func (r *Ring[T]) At(i int) *T { return &r.buf[(r.from+i)&(len(r.buf)-1)] }

// Push copies *v.
func (r *Ring[T]) Push(v *T) {
	if r.n == len(r.buf) {
		grown := make([]T, max(16, 2*len(r.buf)))
		k := copy(grown, r.buf[r.from:])
		copy(grown[k:], r.buf[:r.from])
		r.buf, r.from = grown, 0
	}
	r.buf[(r.from+r.n)&(len(r.buf)-1)] = *v
	r.n++
}

// Pop removes the head, of which there must be one. The queue keeps nothing of it.
func (r *Ring[T]) Pop() (v T) {
	v, r.buf[r.from] = r.buf[r.from], v
	r.from = (r.from + 1) & (len(r.buf) - 1)
	r.n--
	return v
}
