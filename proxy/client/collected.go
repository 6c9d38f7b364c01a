package client

import (
	"slices"

	"lockproxy/internal/loop"
)

// Collected is what has arrived of a reply. A long one is kept in pieces, so that it is not copied again and
// again while it grows. It belongs to a loop.
type Collected struct {
	Front [][]byte // pieces before Buf
	Buf   []byte
}

// Add adds chunk, which is copied, or kept if it is larger than loop.Shared.
func (c *Collected) Add(chunk []byte) {
	if !c.adoptChunk(chunk) {
		c.Buf = append(c.Buf, chunk...)
	}
}

// Keep is Add, but copies a short chunk into memory of the loop.
func (c *Collected) Keep(l *loop.Loop, chunk []byte) {
	if !c.adoptChunk(chunk) {
		c.Buf = l.Keep(c.Buf, chunk)
	}
}

// adoptChunk starts a new piece if buf would get too long with chunk. It keeps chunk itself if it begins a
// piece and is larger than loop.Shared.
func (c *Collected) adoptChunk(chunk []byte) bool {
	if len(c.Buf) > 0 && len(c.Buf)+len(chunk) > LongFrom {
		c.Front, c.Buf = append(c.Front, c.Buf), nil
	}
	if c.Buf != nil || len(chunk) <= loop.Shared {
		return false
	}
	c.Buf = chunk[:len(chunk):len(chunk)]
	return true
}

// Size is how many bytes have arrived.
func (c *Collected) Size() int {
	n := len(c.Buf)
	for _, piece := range c.Front {
		n += len(piece)
	}
	return n
}

// Whole returns all of it in one piece. A loop may call it only if Front is empty.
func (c *Collected) Whole() []byte {
	if len(c.Front) == 0 {
		return c.Buf
	}
	return slices.Concat(append(slices.Clip(c.Front), c.Buf)...)
}

// Drop forgets it and returns its memory to the loop.
func (c *Collected) Drop(l *loop.Loop) {
	l.Put(c.Buf)
	*c = Collected{}
}
