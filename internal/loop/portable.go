package loop

import (
	"io"
	"net"
	"sync"
	"time"
)

// portable serves any net.Conn: for each connection one goroutine reads and posts the input, and another
// writes. The loop's side never blocks. The end of a connection is noticed once all input before it has been
// read. It is for systems without epoll, and for tests in fake time: channels and mutexes are all that it
// waits on.
type portable struct {
	bell chan struct{} // capacity 1

	mu sync.Mutex
	// those with something for the loop, each once; spare is the array of before
	ready []*netSocket
	spare []*netSocket
}

func newPortable() *portable { return &portable{bell: make(chan struct{}, 1)} }

func (p *portable) wakeLoop() {
	select {
	case p.bell <- struct{}{}:
	default:
	}
}

func (p *portable) closePoller() {}

func (p *portable) waitForEvents(l *Loop) {
	<-p.bell
	l.beginRound()
	p.mu.Lock()
	ready := p.ready
	p.ready = p.spare[:0]
	for _, s := range ready {
		s.queued = false
	}
	p.mu.Unlock()
	for i, s := range ready {
		ready[i] = nil
		s.serveReady()
	}
	p.spare = ready
}

func (p *portable) adoptConn(nc net.Conn, c *Conn) (socket, error) {
	s := &netSocket{
		poller: p, conn: c, nc: nc, wantRead: true,
		more:   make(chan struct{}, 1),
		output: make(chan []byte, 2),
	}
	go s.readLoop()
	go s.writeLoop()
	return s, nil
}

// netSocket is a net.Conn made non-blocking by two goroutines, which end when
// it is closed.
type netSocket struct {
	poller *portable
	conn   *Conn
	nc     net.Conn
	// Of the loop alone. The rest of the fields is for the two goroutines, or guarded.
	wantRead bool          // of the loop
	more     chan struct{} // what came was taken: read on
	output   chan []byte   // what to write next; nil: the end of the stream

	// Guarded by poller.mu.
	queued bool
	// a part of the reader's buffer, which the reader does not touch until it hears from more
	came    []byte
	readErr error
	writing bool // the writer has something to write
	wrote   bool // it has finished since the loop last looked
	wErr    error
	closed  bool
	took    uint64 // bytes that nc took, or may have taken
}

// notifyPoller puts s on the list of ready sockets; with poller.mu held.
func (s *netSocket) notifyPoller() {
	if !s.queued && !s.closed {
		s.queued = true
		s.poller.ready = append(s.poller.ready, s)
		s.poller.wakeLoop()
	}
}

// readLoop reads into one buffer, and reads on only once the loop has taken all of it: so a client that is
// not read from is slowed down by TCP.
func (s *netSocket) readLoop() {
	buf := make([]byte, 16<<10)
	for {
		n, err := s.nc.Read(buf)
		// io.Reader allows that, and it means nothing
		if n == 0 && err == nil {
			continue
		}
		s.poller.mu.Lock()
		s.came, s.readErr = buf[:n], err
		s.notifyPoller()
		s.poller.mu.Unlock()
		if err != nil {
			return
		}
		if _, ok := <-s.more; !ok {
			return
		}
	}
}

// writeLoop writes one piece after the other, and closes nc once the loop has closed output.
func (s *netSocket) writeLoop() {
	for p := range s.output {
		if p == nil {
			if c, ok := s.nc.(interface{ CloseWrite() error }); ok {
				c.CloseWrite()
			}
			continue
		}
		n, err := s.nc.Write(p)
		s.poller.mu.Lock()
		s.took -= uint64(len(p) - n)
		s.writing, s.wrote, s.wErr = false, true, err
		s.notifyPoller()
		s.poller.mu.Unlock()
	}
	s.nc.Close()
}

// serveReady runs on the loop.
func (s *netSocket) serveReady() {
	s.poller.mu.Lock()
	wrote, err := s.wrote, s.wErr
	s.wrote = false
	s.poller.mu.Unlock()
	switch {
	case err != nil: // the peer has not got what was taken to be written
		s.conn.shutConn(ErrReset)
	case wrote:
		s.conn.writable()
	}
	// Until all is taken: the reader waits for that.
	for s.wantRead && !s.conn.closed && s.hasInput() {
		s.conn.readable()
	}
	// A reset is told to a connection that reads nothing, too; an end in good order waits until it reads.
	if err := s.ended(); err != nil && err != io.EOF && !s.wantRead {
		s.conn.hungUp(ErrReset)
	}
}

// hasInput says that there is input, or an end of it that the connection has not seen.
func (s *netSocket) hasInput() bool {
	s.poller.mu.Lock()
	defer s.poller.mu.Unlock()
	return len(s.came) > 0 || s.readErr != nil && !s.conn.eof
}

// ended is why reading has ended, nil if it has not.
func (s *netSocket) ended() error {
	s.poller.mu.Lock()
	defer s.poller.mu.Unlock()
	return s.readErr
}

func (s *netSocket) readBytes(p []byte) (int, error) {
	s.poller.mu.Lock()
	defer s.poller.mu.Unlock()
	if len(s.came) == 0 {
		if s.readErr != nil {
			return 0, s.readErr
		}
		return 0, errAgain
	}
	n := copy(p, s.came)
	s.came = s.came[n:]
	if len(s.came) == 0 && s.readErr == nil {
		// It has room: the reader has emptied it before it read this.
		s.more <- struct{}{}
	}
	return n, nil
}

func (s *netSocket) writeBytes(p []byte) (int, error) {
	s.poller.mu.Lock()
	defer s.poller.mu.Unlock()
	if s.wErr != nil {
		return 0, s.wErr
	}
	if s.writing {
		return 0, errAgain
	}
	// A piece is copied, so the caller may use p again at once. A bound on it lets others have memory, too.
	n := min(len(p), scratchSize)
	s.writing = true
	s.took += uint64(n)
	s.output <- append([]byte(nil), p[:n]...)
	return n, nil
}

func (s *netSocket) setInterest(read, write bool) {
	s.wantRead = read
	s.poller.mu.Lock()
	defer s.poller.mu.Unlock()
	if read && len(s.came) > 0 || read && s.readErr != nil || s.wrote {
		s.notifyPoller()
	}
}

// acknowledged implements socket: what the connection took counts as being at the peer, since nothing else
// is known.
func (s *netSocket) acknowledged() account {
	s.poller.mu.Lock()
	defer s.poller.mu.Unlock()
	return account{acked: s.took, known: true, final: true}
}

// finishOutput implements socket. Where one side cannot end alone, the end of the stream comes with close.
func (s *netSocket) finishOutput() { s.output <- nil }

// passing implements socket.
func (s *netSocket) passing() bool {
	s.poller.mu.Lock()
	defer s.poller.mu.Unlock()
	return s.writing
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

// closeSocket lets the writer finish what it was given, so that a last reply still
// goes out, but not for longer than the peer takes it.
func (s *netSocket) closeSocket() {
	s.poller.mu.Lock()
	s.closed = true
	writing := s.writing
	s.poller.mu.Unlock()
	// The writer ends behind what it was given, and the reader, if it waits for more, at once.
	close(s.output)
	close(s.more)
	if writing {
		s.nc.SetDeadline(time.Now().Add(time.Second))
	}
}
