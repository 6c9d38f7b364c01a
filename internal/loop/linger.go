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

// lingerState is how far a connection is on its way to its end.
type lingerState struct {
	deaf      bool          // the handler gets no more input
	patience  time.Duration // with a peer that goes on writing
	lingering bool          // all output is written, and the peer may not have got it yet
	heard     time.Time     // when it sent something last, while lingering
	since     time.Time     // when it had got all output, as far as is known; zero: not yet
}

// EndInput stops reading from the peer. Input that came before is kept and offered as always. After
// CloseAfterWrite the connection stays until the peer has got all output, however long that takes, and for
// patience at most while it goes on writing: who is in the middle of that reads nothing before its end.
func (c *Conn) EndInput(patience time.Duration) {
	c.deaf, c.patience = true, patience
	c.updateInterest()
}

// beginLinger ends the output. What the peer sends meanwhile is read and dropped.
func (c *Conn) beginLinger() {
	if c.lingering {
		return
	}
	c.lingering = true
	// The peer sees the end of the stream, and a well-behaved one closes soon.
	c.sock.finishOutput()
	came := c.dropInput()
	c.endIfPassed()
	switch {
	case c.closed:
	// Nothing has come, and everything has arrived: a close now resets nothing.
	case !c.eof && !came && c.sock.unread() == 0:
		c.shutConn(net.ErrClosed)
	default:
		// no event says that the peer has acknowledged something, so it is looked for
		c.loop.After(lingerLook, c.lookLingering)
		c.updateInterest()
	}
}

// Over says that all output is written and nothing more is read. The connection only waits for its peer to
// get what the kernel still has.
func (c *Conn) Over() bool { return c.lingering }

// dropInput reads once, and drops what came.
func (c *Conn) dropInput() (came bool) {
	if c.eof {
		return false
	}
	n, err := c.sock.readBytes(c.loop.scratch)
	switch {
	case n > 0:
		c.heard = c.loop.Now()
	case err == errAgain:
	case err == io.EOF:
		c.eof = true
	default:
		c.shutConn(err)
	}
	return n > 0
}

// endIfPassed closes the connection if its peer has ended its side: then no input can come that would reset
// it, so the kernel delivers everything that it has.
func (c *Conn) endIfPassed() {
	if c.eof && !c.sock.passing() {
		c.shutConn(net.ErrClosed)
	}
}

// lookLingering closes the connection if nothing can be lost by that any more.
func (c *Conn) lookLingering() {
	c.endIfPassed()
	if c.closed {
		return
	}
	now := c.loop.Now()
	switch {
	// it has not got everything, and gets all the time that it needs
	case c.sock.unread() > 0:
		c.since = time.Time{}
	case c.since.IsZero():
		c.since = now
	case now.Sub(c.heard) >= c.patience/lingerQuiet || now.Sub(c.since) >= c.patience:
		c.shutConn(net.ErrClosed)
		return
	}
	c.loop.After(lingerLook, c.lookLingering)
}
