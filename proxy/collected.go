package proxy

import (
	"lockproxy/internal/loop"
	"lockproxy/proxy/client"
)

// collected is what has come of a reply. A long one lies in pieces, so that nothing is copied again and again
// while it grows.
type collected struct {
	front [][]byte // pieces before buf
	buf   []byte
}

// add adds chunk, which is copied, or kept if it is larger than loop.Shared.
func (c *collected) add(chunk []byte) {
	if !c.adopt(chunk) {
		c.buf = append(c.buf, chunk...)
	}
}

// keep is add into memory of the loop where chunk is short.
func (c *collected) keep(l *loop.Loop, chunk []byte) {
	if !c.adopt(chunk) {
		c.buf = l.Keep(c.buf, chunk)
	}
}

// adopt makes a piece of buf if that would get too long with chunk, and keeps chunk if it is the first of a
// piece and larger than loop.Shared.
func (c *collected) adopt(chunk []byte) bool {
	if len(c.buf) > 0 && len(c.buf)+len(chunk) > client.LongFrom {
		c.front, c.buf = append(c.front, c.buf), nil
	}
	if c.buf != nil || len(chunk) <= loop.Shared {
		return false
	}
	c.buf = chunk[:len(chunk):len(chunk)]
	return true
}

func (c *collected) size() int {
	n := len(c.buf)
	for _, piece := range c.front {
		n += len(piece)
	}
	return n
}

// whole is all of it in one piece. A loop asks for it only where there is no front.
func (c *collected) whole() []byte {
	if len(c.front) == 0 {
		return c.buf
	}
	all := make([]byte, 0, c.size())
	for _, piece := range c.front {
		all = append(all, piece...)
	}
	return append(all, c.buf...)
}

// drop forgets it. Its memory goes back to the loop.
func (c *collected) drop(l *loop.Loop) {
	l.Put(c.buf)
	*c = collected{}
}
