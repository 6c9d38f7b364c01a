package loop

import "io"

// This file reads: what comes over a connection is offered to its handler, and what that does not take yet is
// kept, in memory that grows with what has really come.

// readable is called by the poller when there is input, or the end of it.
func (c *Conn) readable() {
	if c.closed || c.eof {
		return
	}
	if c.lingering {
		// nobody wants it; it is read so that the close is no reset
		c.dropInput()
		c.updateInterest()
		c.endIfPassed()
		return
	}
	n, err := c.fillInput()
	if n > 0 && !c.closed {
		c.updateInterest()
	}
	switch {
	case err == nil || err == errAgain || c.closed:
	case err == io.EOF:
		c.eof = true
		// The connection stays, for answers that are still to come, and reads no more: eof is set.
		if h, ok := c.handler.(HalfCloser); ok && h.EOF() {
			c.updateInterest()
			return
		}
		c.shutConn(err)
	default:
		c.shutConn(err)
	}
}

// fillInput reads once and offers what came. Small remains of the last read are put
// in front of it in the loop's buffer; a long command grows in a buffer of its own.
func (c *Conn) fillInput() (n int, err error) {
	l := c.loop
	kept := len(c.in)
	if c.paused && c.most > 0 && kept >= c.most {
		return 0, ErrUnread
	}
	// A handler that is paused gets nothing, so its input needs memory that stays. A long command would be
	// copied out of scratch again with each read.
	if kept+c.missing > scratchSize/2 || c.paused {
		if !c.makeRoom() {
			return 0, errAgain
		}
		n, err = c.sock.readBytes(c.in[kept:min(cap(c.in), kept+maxRead)])
		if n > 0 {
			c.in = c.in[:kept+n]
			// As long as the handler needs more than has come, it is not asked: it would look at the same
			// bytes again.
			if n >= c.missing {
				c.offerKept()
			} else {
				c.missing -= n
			}
		}
		return n, err
	}
	// Read behind a gap that is as long as what is kept, and fill the gap afterwards: so an empty read costs
	// no copy.
	n, err = c.sock.readBytes(l.scratch[kept:])
	if n <= 0 {
		return n, err
	}
	copy(l.scratch, c.in)
	l.Put(c.in)
	c.in = nil
	buf := l.scratch[:kept+n]
	used := c.consumeInput(buf)
	// What is left moves out of scratch, which the next connection overwrites.
	if used < len(buf) && !c.closed {
		c.in = append(l.getBuffer(len(buf)-used), buf[used:]...)
	}
	return n, err
}

// offerKept gives the handler the input that is kept.
func (c *Conn) offerKept() {
	if c.paused {
		return
	}
	used := c.consumeInput(c.in)
	switch {
	case c.closed:
	case used == len(c.in):
		c.keepInput(nil)
	// Moving a megabyte to the front for each command that is taken from it would be quadratic.
	case used > 0 && len(c.in)-used > Shared: // the handler may take it in many portions
		c.in, c.spent = c.in[used:], c.spent+used
	case used > 0:
		c.keepInput(append(c.loop.getBuffer(len(c.in)-used), c.in[used:]...))
	}
}

// keepInput keeps b, a buffer of the loop, in the place of in.
func (c *Conn) keepInput(b []byte) {
	if c.spent == 0 {
		c.loop.Put(c.in)
	}
	c.in, c.spent = b, 0
}

// consumeInput calls the handler with buf, and again if the handler has resumed itself meanwhile. It returns
// how many bytes of buf are consumed, which says nothing if c was closed meanwhile.
func (c *Conn) consumeInput(buf []byte) int {
	used := 0
	// meanwhile shutConn leaves the buffer alone, and Pause and Resume do not touch the socket
	c.inRead = true
	for {
		c.missing, c.likely, c.again = 0, 0, false
		used += c.handler.Read(buf[used:])
		if !c.again || c.closed || c.paused || used == len(buf) {
			break
		}
	}
	c.inRead = false
	return used
}

// makeRoom makes room behind c.in. false: more has to be copied than a loop has time for, so a goroutine
// does it, and nothing is read meanwhile.
func (c *Conn) makeRoom() bool {
	switch {
	case hasRoom(c.in):
	case len(c.in)+max(c.missing, leastRoom) <= largest:
		c.keepInput(append(c.loop.getBuffer(len(c.in)+max(c.missing, leastRoom)), c.in...))
	case len(c.in) < growApart:
		c.in, c.spent = growBuffer(c.in, c.missing, c.likely), 0
	// c.in is not written meanwhile, though the handler may consume it: grown looks whether it is still the
	// same.
	case !c.growing:
		c.growing = true
		c.updateInterest()
		go func(in []byte, missing, likely int) { // ends by itself
			larger := growBuffer(in, missing, likely)
			c.loop.Post(func() { c.grown(in, larger) })
		}(c.in, c.missing, c.likely)
	}
	return !c.growing
}

// grown puts the buffer larger in the place of in, unless that has been consumed meanwhile.
func (c *Conn) grown(in, larger []byte) {
	c.growing = false
	// Both are growApart long at least, if their lengths are the same, so there is a first byte.
	if len(c.in) == len(in) && &c.in[0] == &in[0] {
		c.in, c.spent = larger, 0
	}
	c.updateInterest()
}

// leastRoom is how much room there is for a read at least.
const leastRoom = 4 << 10

// hasRoom says that b need not grow before the next read.
func hasRoom(b []byte) bool { return cap(b)-len(b) >= leastRoom }

// growBuffer returns b with room for need more bytes, but at most four times as large: memory for what a peer
// announces is only allocated once it has sent a good part of it. If the need is not known, b grows by a
// half, so each byte of a long input is copied about twice, not once for each read. If so much more is
// likely that it takes several steps, the last of them is a whole one, so a third of it is copied.
func growBuffer(b []byte, need, likely int) []byte {
	if hasRoom(b) {
		return b
	}
	most := max(3*len(b), scratchSize)
	room := max(need, len(b)/2, leastRoom)
	if likely > room {
		all := len(b) + likely + likely/8 // more, because it is a guess
		// A step makes b four times as long at most. Divided by four again and again, all is the size from
		// which further such steps end at all.
		for all > len(b)+most {
			all = all/4 + 1
		}
		room = max(room, all-len(b))
	}
	g := make([]byte, len(b), len(b)+min(room, most))
	copy(g, b)
	return g
}
