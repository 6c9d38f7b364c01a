package loop

import (
	"io"
	"net"
	"time"
)

// This file ends connections from which nothing more is read although the peer may go on writing. If a
// socket is closed with unread input, the connection is reset, and output that the peer has not got yet is
// lost.

const (
	// lingerLook is how often a lingering connection is checked.
	lingerLook = 20 * time.Millisecond
	// lingerQuiet is the part of its patience for which the peer must have been silent once it has got
	// everything.
	lingerQuiet = 20
)

// EndInput stops reading from the peer. Input that came before is kept and offered as always. After
// CloseAfterWrite the connection stays until the peer has got all output, however long that takes, and for
// patience at most while it goes on writing: who is in the middle of that reads nothing before its end.
func (c *Conn) EndInput(patience time.Duration) {
	c.deaf, c.patience = true, patience
	c.update()
}

// linger ends the output. What the peer sends meanwhile is read and dropped.
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
		c.loop.After(lingerLook, c.look)
		c.update()
	}
}

// Over says that all output is written and nothing more is read. The connection only waits for its peer to
// get what the kernel still has.
func (c *Conn) Over() bool { return c.lingering }

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

// endIfPassed closes the connection if its peer has ended its side: then no input can come that would reset
// it, so the kernel delivers everything that it has.
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
	case now.Sub(c.heard) >= c.patience/lingerQuiet || now.Sub(c.since) >= c.patience:
		c.shut(net.ErrClosed)
		return
	}
	c.loop.After(lingerLook, c.look)
}
