package loop

import (
	"errors"
	"io"
	"net"
	"time"
)

// Handler is the owner of one connection. All its methods run on the loop.
type Handler interface {
	// Read is given every byte that came and was not consumed yet, and returns how many of them it consumes
	// now. buf is valid during the call, and for longer where it is longer than Shared. It may close, pause
	// or resume its connection meanwhile.
	Read(buf []byte) (consumed int)
	// Output is what is to be written, valid until Wrote. It is asked again after each Wrote, until it is
	// empty. Nothing asks by itself: whoever has new output calls Conn.Flush.
	Output() []byte
	// Wrote says that the first n bytes of Output are written.
	Wrote(n int)
	// Closed is called once, when the connection is closed: err is io.EOF when the peer ended its side in
	// good order, net.ErrClosed after Close, ErrReset or the error of the system call otherwise.
	Closed(err error)
}

// HalfCloser is a Handler that wants to answer what it has read after the peer ended its side.
type HalfCloser interface {
	// EOF says that the peer will send no more. If it returns false, the connection is closed now; with
	// true, the handler closes it.
	EOF() bool
}

// InputCounter is a Handler that wants to know how much memory its input takes.
type InputCounter interface {
	// InputKept says that Conn.InputMemory has changed.
	InputKept()
}

// Conn is one connection of a loop. All methods run on the loop. The handler keeps it, and does not use it
// after Closed. Its methods do no harm then.
type Conn struct {
	loop    *Loop
	handler Handler
	sock    socket
	in      []byte // came and was not consumed
	spent   int    // bytes in front of in, in the same memory
	told    int    // the InputMemory that the handler knows of
	missing int    // how many bytes the handler needs beyond in
	likely  int    // how many it expects to come, if more

	// States, each of which may go with most of the others. stalled, ending and closing are about output, the
	// rest about input.
	dirty   bool // in loop.dirty
	stalled bool // the socket takes no more output now
	paused  bool // the handler does not want input
	most    int  // how much it is to keep then, so that the end behind that is seen; 0: little
	eof     bool // the peer has ended its side
	ending  bool // end this side when all output is written
	closing bool // close when all output is written
	closed  bool
	reading bool // registered for input
	growing bool // in is being copied to a larger buffer
	inRead  bool // Handler.Read is on the stack
	again   bool // resumed during Handler.Read

	lingerState

	// taken in shutConn, since a socket that is closed has none
	account account // when the connection broke
}

// account is what a peer has got of everything that was written to it. Of the zero value nothing is known.
// When a connection broke, it says whether the peer may have read a certain reply, such as the grant of a
// lock.
type account struct {
	acked uint64 // bytes that it has acknowledged
	known bool
	final bool // it can have no more than these
}

// socket is a stream that never blocks. Its implementations are fdSocket, netSocket and bridge. All methods
// run on the loop.
type socket interface {
	// Errors besides errAgain are final. io.EOF is the end that the peer has set.
	readBytes(p []byte) (int, error)  // errAgain: nothing there now
	writeBytes(p []byte) (int, error) // errAgain: no room now
	// setInterest says which events are wanted from now on: input, room for
	// output. A reset is always told.
	setInterest(read, write bool)
	// acknowledged is what the peer has got so far.
	acknowledged() account
	finishOutput() // there is no more output: the peer sees the end of the stream behind what was written
	passing() bool // what was written is not all with the kernel yet
	unread() int   // bytes that the peer has not got yet, as far as is known
	closeSocket()
	descriptor() int                // -1: it has none
	unheard() bool                  // see Conn.Unheard
	probePeer(within time.Duration) // see Conn.Probe
}

// poller waits for sockets.
type poller interface {
	// waitForEvents blocks until something happened, calls l.beginRound and serves the
	// connections that are ready.
	waitForEvents(l *Loop)
	// adoptConn takes over nc and makes a socket of it, with interest in input.
	adoptConn(nc net.Conn, c *Conn) (socket, error)
	// wakeLoop ends a wait. From any goroutine. It must not block, and one call is enough however often it
	// comes before the loop looks.
	wakeLoop()
	closePoller()
}

const (
	// maxRead is how many bytes one read takes at most, maxWrite how many a round writes to a connection, so
	// that others have their turn.
	maxRead, maxWrite = 512 << 10, 512 << 10
	// growApart is how much input the loop copies itself when its buffer is full.
	growApart = 1 << 20
)

var errAgain = errors.New("loop: not ready")

// ErrReset is what Handler.Closed gets if the peer has reset the connection: it has not read everything that
// was written to it.
var ErrReset = errors.New("loop: connection reset by peer")

// ErrUnread is what Handler.Closed gets if the peer has sent more than Conn.Pause allows.
var ErrUnread = errors.New("loop: too much input has come that nobody reads")

// Add takes over nc, which the caller must not use any more; it is closed when Add fails. It must be called
// on the loop, and h may hear of input only in a later round.
func (l *Loop) Add(nc net.Conn, h Handler) (*Conn, error) {
	c, err := l.addConn(h, func(c *Conn) (socket, error) { return l.poller.adoptConn(nc, c) })
	if err != nil {
		nc.Close()
	}
	return c, err
}

// Offer offers the handler input that was read of the connection before it was added, at once. It comes
// before the first round of the connection.
func (c *Conn) Offer(came []byte) {
	c.in = append(c.loop.getBuffer(len(came)), came...)
	c.Resume()
}

// addConn makes a connection of the socket that open returns.
func (l *Loop) addConn(h Handler, open func(*Conn) (socket, error)) (*Conn, error) {
	c := &Conn{loop: l, handler: h, reading: true}
	s, err := open(c)
	if err != nil {
		return nil, err
	}
	// In between nothing is called of c: its events are only looked at in the next wait.
	c.sock = s
	l.conns[c] = struct{}{}
	return c, nil
}

// Flush has Output written at the end of the round.
func (c *Conn) Flush() {
	if !c.dirty && !c.stalled && !c.closed {
		c.dirty = true
		c.loop.dirty = append(c.loop.dirty, c)
	}
}

// Write writes p at once, as far as the peer takes it now and others have time for, and returns how much that
// is. It writes nothing if Output has something: the rest of p goes there. It saves a copy for a long reply
// that comes while nothing waits, and the round's own flush for it.
func (c *Conn) Write(p []byte) int {
	if c.closed || c.stalled || len(c.handler.Output()) > 0 {
		return 0
	}
	p = p[:min(len(p), maxWrite)]
	n, err := c.sock.writeBytes(p)
	// A failed write tells nobody here: the caller is in the middle of something, and does not expect Closed.
	if err != nil && err != errAgain { // writing the rest meets it again
		return 0
	}
	if n < len(p) {
		c.stalled = true
		c.updateInterest()
	}
	return n
}

// Stalled says that the peer does not take what is written to it now.
func (c *Conn) Stalled() bool { return c.stalled }

// Need says how many bytes beyond those left unconsumed the handler needs, so that a long command is read in
// place, and how many more than those are likely to come before it consumes any. Read forgets both: what the
// handler does not say again during a call is not needed any more.
func (c *Conn) Need(n, likely int) { c.missing, c.likely = n, likely }

// Pause gives the handler no more input; what came is kept. If most is not 0, all that comes is kept, since
// the end of the connection is seen only behind it. With more than most bytes the connection is closed. A
// reset is noticed in any case.
func (c *Conn) Pause(most int) {
	c.paused, c.most = true, most
	if !c.inRead {
		c.updateInterest()
	}
}

// Resume reads on, beginning with what is kept. Called from within
// Handler.Read it has no effect until that returns.
func (c *Conn) Resume() {
	c.paused = false
	if c.inRead {
		// consumeInput calls Read again by itself, since recursion would offer the same bytes twice
		c.again = true
	}
	if c.closed || c.inRead {
		return
	}
	if len(c.in) > 0 {
		c.offerKept()
	}
	c.updateInterest()
}

// EndOutput lets the peer see the end of the stream behind all output. Input still comes.
func (c *Conn) EndOutput() {
	c.ending = true
	c.Flush()
}

// CloseAfterWrite closes the connection when all output is written.
func (c *Conn) CloseAfterWrite() {
	if !c.closed {
		c.closing = true
		c.Flush()
		c.updateInterest()
	}
}

// Close closes the connection now.
func (c *Conn) Close() { c.shutConn(net.ErrClosed) }

// Kept is how many bytes of input wait unconsumed.
func (c *Conn) Kept() int { return len(c.in) }

// InputMemory is how many bytes of memory unconsumed input takes.
func (c *Conn) InputMemory() int { return c.spent + cap(c.in) }

// Descriptor is the file descriptor of the connection, or -1 where it has none. It stays the connection's,
// and is only good for telling which connection is meant (CLIENT LIST, fd=).
func (c *Conn) Descriptor() int { return c.sock.descriptor() }

// Acknowledged is for Handler.Closed, when a connection has broken: how many of the bytes written to it the
// peer has acknowledged, by the account of the kernel, and whether there is one. Acknowledged bytes are at
// the peer, which may have read them. Unless the account is final, others may be there too, if they went out
// so late that the acknowledgement was still to come.
func (c *Conn) Acknowledged() (n uint64, known, final bool) {
	return c.account.acked, c.account.known, c.account.final
}

// Unheard says that the kernel has sent something again and again, and the peer has acknowledged nothing
// since. It never does where the kernel does not tell.
func (c *Conn) Unheard() bool { return !c.closed && c.sock.unheard() }

// Probe has the kernel find out whether the peer is there, if it can, and close the connection after within
// if not. While nothing is sent, it does so again each third of that.
func (c *Conn) Probe(within time.Duration) {
	if !c.closed {
		c.sock.probePeer(within)
	}
}

// updateInterest tells the socket which events matter now. A paused connection reads on
// until a scratch buffer's worth is kept, so that its end is noticed, or as much as it is to keep.
func (c *Conn) updateInterest() {
	if c.closed {
		return
	}
	// Each way in which kept input changes ends here, so the handler need not be told anywhere else.
	if c.told != c.InputMemory() {
		c.told = c.InputMemory()
		if h, ok := c.handler.(InputCounter); ok {
			h.InputKept()
		}
	}
	c.reading = !c.eof && !c.growing &&
		(c.lingering || !c.closing && !c.deaf && (!c.paused || c.most > 0 || len(c.in) < scratchSize))
	c.sock.setInterest(c.reading, c.stalled)
}

// writable is called by the poller when a stalled socket has room again.
func (c *Conn) writable() {
	if !c.closed && c.stalled {
		c.stalled = false
		c.writeInRound()
		c.updateInterest()
	}
}

// hungUp is called by the poller when the peer has ended its side (io.EOF) or has reset the connection, and
// there may be input before that. If input is wanted, what came before is read first, and the end is met
// behind it: a client that sends a command and closes is answered.
func (c *Conn) hungUp(err error) {
	switch {
	case c.closed || c.growing: // the poller will say so again
	case c.reading:
		c.readable()
	default:
		c.shutConn(err)
	}
}

// writeInRound writes what the peer takes, and leaves what is more than maxWrite to the next round. One that
// is reached by flushDirty has dirty false; one that is writable again may be listed for this round's flush,
// too, and must not be listed twice.
func (c *Conn) writeInRound() {
	if c.closed || c.stalled {
		return
	}
	listed := c.dirty
	c.dirty = true // while it writes, Flush has nothing to do
	more := c.writeOutput()
	if more && !listed {
		c.loop.unfinished = append(c.loop.unfinished, c)
	}
	c.dirty = more || listed
}

// writeOutput reports whether there is more output, which the peer may take.
func (c *Conn) writeOutput() (more bool) {
	// left counts down so that one client that reads very fast does not have the loop for itself.
	for left := maxWrite; ; {
		out := c.handler.Output()
		if len(out) == 0 {
			break
		}
		if left == 0 {
			return true
		}
		out = out[:min(len(out), left)]
		n, err := c.sock.writeBytes(out)
		if err != nil && err != errAgain {
			c.shutConn(err)
			return false
		}
		left -= n
		full := n == len(out)
		if !full {
			// the poller says when there is room: until then each further try would be a system call for
			// nothing
			c.stalled = true
			c.updateInterest()
		}
		if n > 0 {
			c.handler.Wrote(n)
		}
		if !full || c.closed {
			return false
		}
	}
	switch {
	// Nothing is left to write. Whoever was deaf may have unread input, which must not turn the close into a
	// reset.
	case c.closing && c.deaf:
		c.beginLinger()
	case c.closing:
		c.shutConn(net.ErrClosed)
	case c.ending:
		c.ending = false
		c.sock.finishOutput()
	}
	return false
}

// shutConn closes the connection and tells its handler. err is that of Handler.Closed. It may be called
// twice, and while the handler is on the stack; Closed is called before it returns.
func (c *Conn) shutConn(err error) {
	if c.closed {
		return
	}
	c.closed = true
	if err != io.EOF && err != net.ErrClosed {
		// before the socket is closed; after an end in good order nobody asks what has arrived
		c.account = c.sock.acknowledged()
	}
	c.sock.closeSocket()
	delete(c.loop.conns, c)
	if !c.inRead { // otherwise the handler is looking at it
		c.loop.Put(c.in)
	}
	c.in = nil
	c.handler.Closed(err)
}
