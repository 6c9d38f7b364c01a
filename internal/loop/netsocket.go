package loop

import (
	"io"
	"net"
	"sync"
	"time"
)

// netSocket is any net.Conn made non-blocking by two goroutines, which end when it is closed: one reads and
// posts that there is input, the other writes. The loop's side never blocks. The end of a connection is
// noticed once all input before it has been read.
type netSocket struct {
	conn *Conn
	nc   net.Conn
	// These two are of the loop alone.
	wantRead bool
	piece    []byte // what is being written, a buffer of the loop

	more   chan struct{} // what came was taken: read on
	output chan []byte   // what to write next; nil: the end of the stream
	serve  func()        // s.serveReady, made once
	// broken waits, after the end of the input, until the connection is reset (true) or closed. nil: nobody
	// tells.
	broken func() bool

	mu     sync.Mutex // guards what follows
	queued bool       // serve is posted
	// a part of the reader's buffer, which the reader does not touch until it hears from more
	came    []byte
	readErr error
	pending int  // what the writer was given and has not finished
	wrote   bool // it has finished some since the loop last looked
	reset   bool // the connection has broken, maybe behind the end of the input

	finished bool // the writer was given the end of the stream
	closed   bool
	took     uint64 // bytes that nc took, or may have taken
	last     uint64 // the same without the last piece
}

func newNetSocket(nc net.Conn, c *Conn, broken func() bool) *netSocket {
	s := &netSocket{
		conn: c, nc: nc, wantRead: true, broken: broken,
		more:   make(chan struct{}, 1),
		output: make(chan []byte, 2),
	}
	s.serve = s.serveReady
	go s.readLoop()
	go s.writeLoop()
	return s
}

// notifyLoop has the loop serve s; with mu held.
func (s *netSocket) notifyLoop() {
	if !s.queued && !s.closed {
		s.queued = s.conn.loop.Post(s.serve)
	}
}

// smallRead and largeRead are the sizes of a reader's buffer: at first, and once that was too small. A record
// of TLS has 16 KiB at most.
const smallRead, largeRead = 1 << 10, 16 << 10

// readLoop reads into one buffer, and reads on only once the loop has taken all of it: so a client that is
// not read from is slowed down by TCP.
func (s *netSocket) readLoop() {
	buf := make([]byte, smallRead) // many clients never send more at once
	n, err := 0, error(nil)
	for {
		// io.Reader allows that, and it means nothing
		if n, err = s.nc.Read(buf); n == 0 && err == nil {
			continue
		}
		switch err {
		case nil, io.EOF:
		case io.ErrUnexpectedEOF: // many clients end TLS without saying so
			err = io.EOF
		default:
			err = ErrReset
		}
		s.mu.Lock()
		s.came, s.readErr, s.reset = buf[:n], err, s.reset || err == ErrReset
		s.notifyLoop()
		s.mu.Unlock()
		if err != nil {
			break
		}
		if _, ok := <-s.more; !ok {
			return
		}
		if n == len(buf) && n < largeRead {
			buf = make([]byte, largeRead)
		}
	}
	if err == io.EOF && s.broken != nil && s.broken() {
		s.mu.Lock()
		s.reset = true
		s.notifyLoop()
		s.mu.Unlock()
	}
}

// writeLoop writes one piece after the other, and closes nc once the loop has closed output.
func (s *netSocket) writeLoop() {
	for p := range s.output {
		n, err := 0, error(nil)
		if p == nil {
			endOutput(s.nc)
		} else {
			n, err = s.nc.Write(p)
		}
		s.mu.Lock()
		s.took -= uint64(len(p) - n)
		s.pending, s.wrote, s.reset = s.pending-1, true, s.reset || err != nil
		s.notifyLoop()
		s.mu.Unlock()
	}
	s.nc.Close()
}

// endOutput lets the peer see the end of the stream, of TLS and of TCP, behind what was written. TLS says
// close_notify first: without it the peer could not tell the end from an attack that cuts the stream.
func endOutput(nc net.Conn) {
	for _, nc := range []net.Conn{nc, BelowTLS(nc)} {
		if c, ok := nc.(interface{ CloseWrite() error }); ok {
			c.CloseWrite()
		}
	}
}

// BelowTLS is the connection below TLS, or nc itself.
func BelowTLS(nc net.Conn) net.Conn {
	if over, ok := nc.(interface{ NetConn() net.Conn }); ok {
		return over.NetConn()
	}
	return nc
}

// serveReady runs on the loop.
func (s *netSocket) serveReady() {
	s.mu.Lock()
	wrote := s.wrote && !s.reset
	s.queued, s.wrote = false, false
	if s.pending == 0 {
		s.conn.loop.Put(s.piece)
		s.piece = nil
	}
	s.mu.Unlock()
	if wrote {
		s.conn.writable()
	}
	// Once: who goes on sending is told of again (setInterest), and others have their turn in between.
	if s.wantRead && !s.conn.closed && s.hasInput() {
		s.conn.readable()
	}
	// A connection that reads nothing is told, too. The end of its input comes first: a client that closes
	// before its answer comes has not got the answer, and a reset alone does not say so.
	if s.wasReset() && !s.conn.growing {
		s.conn.shutConn(ErrReset)
	}
}

// hasInput says that there is input, or an end of it that the connection has not seen.
func (s *netSocket) hasInput() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.came) > 0 || s.readErr != nil && !s.conn.eof
}

// wasReset says that the connection has broken, and that it is time to close it.
func (s *netSocket) wasReset() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	// What came before the reset is read first, if anything is read.
	unread := s.wantRead && (len(s.came) > 0 || s.readErr != nil)
	// The kernel is asked what the peer has got. A piece would count as that until its Write has failed,
	// which it does at once.
	writing := s.broken != nil && s.readErr == io.EOF && s.pending > 0
	return s.reset && !unread && !writing
}

func (s *netSocket) readBytes(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.came) == 0 {
		if s.readErr != nil {
			return 0, s.readErr
		}
		return 0, errAgain
	}
	n := copy(p, s.came)
	s.came = s.came[n:]
	if len(s.came) == 0 && s.readErr == nil {
		// This does not block: the reader has taken the last one before it read what came.
		s.more <- struct{}{}
	}
	return n, nil
}

func (s *netSocket) writeBytes(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pending > 0 || s.reset { // serveReady goes on, or closes the connection
		return 0, errAgain
	}
	// A piece is copied, so the caller may use p again at once. A bound on it lets others have memory, too.
	n := min(len(p), largest)
	s.conn.loop.Put(s.piece)
	s.piece = append(s.conn.loop.getBuffer(n), p[:n]...)
	s.pending++
	s.last, s.took = s.took, s.took+uint64(n)
	s.output <- s.piece
	return n, nil
}

func (s *netSocket) setInterest(read, write bool) {
	s.wantRead = read
	s.mu.Lock()
	defer s.mu.Unlock()
	if read && (len(s.came) > 0 || s.readErr != nil) || s.wrote || s.reset {
		s.notifyLoop()
	}
}

// acknowledged implements socket: what the connection took counts as being at the peer, since nothing else
// is known.
func (s *netSocket) acknowledged() account {
	s.mu.Lock()
	defer s.mu.Unlock()
	return account{acked: s.took, known: true, final: true}
}

// finishOutput implements socket. Where one side cannot end alone, the end of the stream comes with close. A
// second call does nothing, or output would have no room.
func (s *netSocket) finishOutput() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.finished {
		return
	}
	s.finished = true
	s.pending++
	s.last = s.took // the end of a stream of TLS is some bytes more, which are not those of an answer
	s.output <- nil
}

// passing implements socket: what the writer has not finished would be lost with the process.
func (s *netSocket) passing() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pending > 0
}

// unread implements socket: nothing is known of what the connection took.
func (s *netSocket) unread() int {
	if s.passing() {
		return 1
	}
	return 0
}

func (s *netSocket) descriptor() int { return -1 }

// unheard implements socket: nobody tells.
func (s *netSocket) unheard() bool { return false }

func (s *netSocket) probePeer(time.Duration) {}

// closeSocket lets the writer finish what it was given, so that a last reply still goes out, if the peer
// takes it within closeWithin. The reader may write too: TLS answers by itself.
func (s *netSocket) closeSocket() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.nc.SetDeadline(time.Now().Add(closeWithin))
	// The writer ends behind what it was given, and the reader, if it waits for more, at once.
	close(s.output)
	close(s.more)
}

// closeWithin is how long the peer may take to read the last that was written to it.
const closeWithin = time.Second
