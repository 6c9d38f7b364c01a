package pipe

// ring is a queue of calls that re-uses its memory.
type ring struct {
	buf  []call // a power of two
	from int
	n    int
}

func (r *ring) len() int { return r.n }

func (r *ring) head() *call { return &r.buf[r.from] }

// at is the i-th, from the head on.
func (r *ring) at(i int) *call { return &r.buf[(r.from+i)&(len(r.buf)-1)] }

func (r *ring) push(c call) {
	if r.n == len(r.buf) {
		grown := make([]call, max(16, 2*len(r.buf)))
		k := copy(grown, r.buf[r.from:])
		copy(grown[k:], r.buf[:r.from])
		r.buf, r.from = grown, 0
	}
	r.buf[(r.from+r.n)&(len(r.buf)-1)] = c
	r.n++
}

func (r *ring) pop() {
	r.buf[r.from] = call{}
	r.from = (r.from + 1) & (len(r.buf) - 1)
	r.n--
}
