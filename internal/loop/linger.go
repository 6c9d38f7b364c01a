package loop

import (
	"io"
	"net"
	"time"
)

// This file is how a connection ends of which no more is read, though the peer may write on: to close a
// socket with input that was not read resets the connection, and what the peer has not got yet is lost.

const (
	// lingerLook is how often a connection that lingers is looked at.
	lingerLook = 20 * time.Millisecond
	// lingerQuiet is for how long the peer must have sent nothing when it has got everything.
	lingerQuiet = 50 * time.Millisecond
	// lingerMost is for how long one may write on that has got everything.
	lingerMost = time.Second
)

// EndInput has nothing more read from the peer. What came already is kept, and offered as ever. After
// CloseAfterWrite the connection stays until the peer has got all output, however long that takes.
func (c *Conn) EndInput() {
	c.deaf = true
	c.update()
}

// linger ends the output, and takes what the peer sends meanwhile and drops it.
func (c *Conn) linger() {
	if c.lingering {
		return
	}
	c.lingering = true
	c.sock.finish()
	came := c.waste()
	c.endIfPassed()
	switch {
	case c.closed:
	case !c.eof && !came && c.sock.unread() == 0:
		c.shut(net.ErrClosed)
	default:
		c.lookLater()
		c.update()
	}
}

// waste reads once, and drops what came.
func (c *Conn) waste() (came bool) {
	if c.eof {
		return false
	}
	n, err := c.sock.read(c.loop.scratch)
	switch {
	case n > 0:
		c.heard = c.loop.Now()
	case err == errAgain:
	case err == io.EOF:
		c.eof = true
	default:
		c.shut(err)
	}
	return n > 0
}

// endIfPassed closes the connection if its peer has ended its side: nothing can come any more that would
// reset the connection, so the kernel delivers all that lies with it.
func (c *Conn) endIfPassed() {
	if c.eof && !c.sock.passing() {
		c.shut(net.ErrClosed)
	}
}

// look closes the connection if nothing can be lost by that any more.
func (c *Conn) look() {
	c.endIfPassed()
	if c.closed {
		return
	}
	now := c.loop.Now()
	switch {
	case c.sock.unread() > 0:
		c.since = time.Time{}
	case c.since.IsZero():
		c.since = now
	case now.Sub(c.heard) >= lingerQuiet || now.Sub(c.since) >= lingerMost:
		c.shut(net.ErrClosed)
		return
	}
	c.lookLater()
}

func (c *Conn) lookLater() { c.loop.After(lingerLook, c.look) }
