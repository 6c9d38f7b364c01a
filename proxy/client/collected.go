package client

import "lockproxy/internal/loop"

// Collected is what has come of a reply. A long one lies in pieces, so that nothing is copied again and again
// while it grows. It belongs to a loop.
type Collected struct {
	Front [][]byte // pieces before Buf
	Buf   []byte
}

// Add adds chunk, which is copied, or kept if it is larger than loop.Shared.
func (c *Collected) Add(chunk []byte) {
	if !c.adopt(chunk) {
		c.Buf = append(c.Buf, chunk...)
	}
}

// Keep is Add into memory of the loop where chunk is short.
func (c *Collected) Keep(l *loop.Loop, chunk []byte) {
	if !c.adopt(chunk) {
		c.Buf = l.Keep(c.Buf, chunk)
	}
}

// adopt makes a piece of buf if that would get too long with chunk, and keeps chunk if it is the first of a
// piece and larger than loop.Shared.
func (c *Collected) adopt(chunk []byte) bool {
	if len(c.Buf) > 0 && len(c.Buf)+len(chunk) > LongFrom {
		c.Front, c.Buf = append(c.Front, c.Buf), nil
	}
	if c.Buf != nil || len(chunk) <= loop.Shared {
		return false
	}
	c.Buf = chunk[:len(chunk):len(chunk)]
	return true
}

// Size is how many bytes have come.
func (c *Collected) Size() int {
	n := len(c.Buf)
	for _, piece := range c.Front {
		n += len(piece)
	}
	return n
}

// Whole is all of it in one piece. A loop asks for it only where there is no front.
func (c *Collected) Whole() []byte {
	if len(c.Front) == 0 {
		return c.Buf
	}
	all := make([]byte, 0, c.Size())
	for _, piece := range c.Front {
		all = append(all, piece...)
	}
	return append(all, c.Buf...)
}

// Drop forgets it. Its memory goes back to the loop.
func (c *Collected) Drop(l *loop.Loop) {
	l.Put(c.Buf)
	*c = Collected{}
}
