package loop

import (
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// maxEvents is how many events one wait fetches. If more are ready, the next wait has them: epoll takes its
// ready sockets in turn.
const maxEvents = 256

// epoll waits on an epoll descriptor that the Go runtime's poller watches through another one, the outer: a
// sleeping loop holds no thread. Reads, writes and epoll_wait with time-out 0 never block, so they are raw
// system calls, which the scheduler does not hear of.
//
//	sockets, bell --> fd --(while armed)--> outer --> poller of the runtime
//
// While the loop is busy it is not armed: each event would wake a thread of the runtime, which would find
// nobody waiting.
type epoll struct {
	// the epoll descriptor with all sockets of the loop
	fd int
	// readable while somebody has posted: its count is not zero
	bell  int // eventfd
	outer int
	file  *os.File // outer, as the runtime knows it
	wakes syscall.RawConn
	armed bool // events wake the runtime
	busy  int  // rounds since the loop slept last
	// by descriptor, since the kernel gives out the lowest free number; nil: none
	conns  []*fdSocket
	ready  []*Listener // that have connections to accept
	events [maxEvents]unix.EpollEvent
	// how many of events the last fetch has filled
	count int
	// fetchEvents as a value, made once: a method value for each wait would allocate
	poll func(fd uintptr) bool
}

// busyRounds is after how many rounds without sleep a loop is busy.
const busyRounds = 2

func newPoller() (poller, error) {
	e := &epoll{fd: -1, bell: -1, outer: -1}
	if err := e.openDescriptors(); err != nil {
		e.closePoller()
		return nil, fmt.Errorf("loop: epoll: %w", err)
	}
	e.poll = e.fetchEvents
	return e, nil
}

func (e *epoll) openDescriptors() (err error) {
	if e.fd, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return err
	}
	if e.bell, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		return err
	}
	if err = e.watchDescriptor(unix.EPOLL_CTL_ADD, e.bell, unix.EPOLLIN); err != nil {
		return err
	}
	if e.outer, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return err
	}
	// not armed yet: no events are asked for
	if err = unix.EpollCtl(e.outer, unix.EPOLL_CTL_ADD, e.fd, &unix.EpollEvent{}); err != nil {
		return err
	}
	// a descriptor that does not block is given to the poller of the runtime
	if err = unix.SetNonblock(e.outer, true); err != nil {
		return err
	}
	e.file = os.NewFile(uintptr(e.outer), "epoll")
	e.wakes, err = e.file.SyscallConn()
	return err
}

// fetchEvents gets the events that are ready; true ends the wait. It is called by the runtime's poller as
// well (RawConn.Read), on the goroutine of the loop, and again whenever outer was ready.
func (e *epoll) fetchEvents(uintptr) bool {
	n, _, errno := syscall.RawSyscall6(syscall.SYS_EPOLL_PWAIT, uintptr(e.fd),
		uintptr(unsafe.Pointer(&e.events[0])), maxEvents, 0, 0, 0)
	// EINTR most likely: it counts as nothing, and the next call sees what there is
	if errno != 0 {
		n = 0
	}
	e.count = int(n)
	if n == 0 {
		e.busy = 0
	}
	return n > 0
}

// armOuter makes events wake the runtime, or not.
func (e *epoll) armOuter(on bool) {
	var event unix.EpollEvent
	if on {
		event.Events = unix.EPOLLIN
	}
	e.armed = on
	unix.EpollCtl(e.outer, unix.EPOLL_CTL_MOD, e.fd, &event) // it fails only if fd is not registered
}

// sleepForEvents waits for events. At least one event has been fetched when it returns.
func (e *epoll) sleepForEvents() {
	e.busy++
	if e.armed && e.busy > busyRounds {
		e.armOuter(false)
	}
	if !e.armed {
		// What comes between this look and arming is seen by the first call of e.poll.
		if e.fetchEvents(0) {
			return
		}
		e.armOuter(true)
	}
	if err := e.wakes.Read(e.poll); err != nil {
		panic("loop: waiting for events: " + err.Error()) // the descriptor was closed under the loop
	}
}

func (e *epoll) waitForEvents(l *Loop) {
	e.sleepForEvents()
	l.beginRound()
	for i := range e.count {
		ev := &e.events[i]
		if int(ev.Fd) == e.bell {
			var count [8]byte
			// which makes it silent until somebody rings again
			rawRead(e.bell, count[:])
			continue
		}
		// It may have been closed by the handler of an earlier event of this round.
		s := e.conns[ev.Fd]
		if s == nil {
			continue
		}
		if s.listener != nil {
			e.ready = append(e.ready, s.listener)
			continue
		}
		// First of all: what is read next may have more to write.
		if ev.Events&unix.EPOLLOUT != 0 {
			s.conn.writable()
		}
		switch {
		case ev.Events&unix.EPOLLIN != 0:
			s.conn.readable()
		case ev.Events&unix.EPOLLERR != 0:
			s.conn.hungUp(ErrReset)
		// a unix socket whose peer has read all and closed
		case ev.Events&unix.EPOLLHUP != 0:
			s.conn.hungUp(io.EOF)
		}
	}
	// behind all other events, which are not about new connections with the numbers of closed ones
	for i, n := range e.ready {
		n.acceptWaiting()
		e.ready[i] = nil
	}
	e.ready = e.ready[:0]
}

func (e *epoll) wakeLoop() {
	one := [8]byte{1}
	rawWrite(e.bell, one[:])
}

// closePoller closes listeners and its own descriptors: Run has closed all connections before. After a
// failure of openDescriptors some of them are -1, which the system refuses.
func (e *epoll) closePoller() {
	for _, s := range e.conns {
		if s != nil && s.listener != nil {
			s.listener.endListening()
		}
	}
	if e.file != nil {
		e.file.Close()
	} else {
		unix.Close(e.outer)
	}
	unix.Close(e.fd)
	unix.Close(e.bell)
}

// adoptConn takes the descriptor of a TCP or unix connection out of the runtime's
// hands. Any other connection is served by goroutines.
func (e *epoll) adoptConn(nc net.Conn, c *Conn) (socket, error) {
	if sc, ok := nc.(syscall.Conn); ok {
		fd, err := detach(nc, sc)
		if err != nil {
			return nil, err
		}
		return e.registerSocket(fd, c)
	}
	return newBridge(nc, c), nil
}

// registerSocket waits for events of a descriptor that does not block. It closes fd if it fails.
func (e *epoll) registerSocket(fd int, c *Conn) (*fdSocket, error) {
	s := &fdSocket{epoll: e, conn: c, fd: fd, events: unix.EPOLLIN}
	if err := e.watchDescriptor(unix.EPOLL_CTL_ADD, fd, s.events); err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("loop: %w", err)
	}
	e.putSocket(s)
	return s, nil
}

// putSocket has events of the descriptor go to s. The kernel gives a number out again as soon as it is free,
// so closeSocket empties the place first.
func (e *epoll) putSocket(s *fdSocket) {
	for len(e.conns) <= s.fd {
		e.conns = append(e.conns, nil)
	}
	e.conns[s.fd] = s
}

// detach returns a non-blocking descriptor of c, whose raw form is sc. c is closed. net has no way to take a
// descriptor away from the runtime's poller, but a copy of it belongs to nobody there.
func detach(c io.Closer, sc syscall.Conn) (int, error) {
	raw, err := sc.SyscallConn()
	if err != nil {
		return -1, err
	}
	fd := -1
	var dupErr error
	err = raw.Control(func(p uintptr) {
		fd, dupErr = unix.FcntlInt(p, unix.F_DUPFD_CLOEXEC, 0)
	})
	if err != nil {
		return -1, err
	}
	if dupErr != nil {
		return -1, fmt.Errorf("loop: dup: %w", dupErr)
	}
	c.Close()
	return fd, nil
}

// fdSocket is a non-blocking descriptor: a connection, or a listening socket.
type fdSocket struct {
	epoll    *epoll
	conn     *Conn
	listener *Listener // nil: it is a connection
	fd       int
	// what epoll waits for now, so that a call that changes nothing is saved
	events uint32
	sent   uint64 // bytes written
	reset  bool   // a read has met ECONNRESET
}

func (s *fdSocket) descriptor() int { return s.fd }

func (s *fdSocket) readBytes(p []byte) (int, error) {
	n, errno := rawRead(s.fd, p)
	switch {
	case errno == 0 && n == 0:
		return 0, io.EOF
	case errno == 0:
		return n, nil
	// After EINTR epoll tells it again, for it is level-triggered.
	case errno == unix.EAGAIN || errno == unix.EINTR:
		return 0, errAgain
	}
	s.reset = errno == unix.ECONNRESET
	return 0, errno
}

func (s *fdSocket) writeBytes(p []byte) (int, error) {
	n, errno := rawWrite(s.fd, p)
	switch errno {
	case 0:
		s.sent += uint64(n)
		return n, nil
	case unix.EAGAIN, unix.EINTR:
		return 0, errAgain
	}
	return 0, errno
}

func (s *fdSocket) setInterest(read, write bool) {
	events := uint32(0)
	if s.conn.lingering && s.conn.eof { // both sides have ended: epoll would say so for ever
		s.epoll.watchDescriptor(unix.EPOLL_CTL_DEL, s.fd, 0)
		return
	}
	if read {
		events |= unix.EPOLLIN
	}
	if write {
		events |= unix.EPOLLOUT
	}
	if events == s.events {
		return
	}
	s.events = events
	// It fails only for a descriptor that is not registered, and this one is until closeSocket.
	s.epoll.watchDescriptor(unix.EPOLL_CTL_MOD, s.fd, events)
}

// acknowledged implements socket. TCP has an account (TCP_INFO, tcpi_bytes_acked), which can be read after a
// reset. A unix socket is reset when its peer closes it and has not read all: then the last byte was not
// read.
func (s *fdSocket) acknowledged() account {
	info, err := unix.GetsockoptTCPInfo(s.fd, unix.IPPROTO_TCP, unix.TCP_INFO)
	switch {
	case err == nil:
		return account{acked: info.Bytes_acked, known: true}
	// No TCP_INFO: it is a unix socket.
	case s.sent > 0 && s.wasReset():
		return account{acked: s.sent - 1, known: true, final: true}
	}
	return account{}
}

// wasReset says that the peer has reset the connection. The system tells that once: to the read that meets
// it, or to whoever asks for SO_ERROR.
func (s *fdSocket) wasReset() bool {
	if !s.reset { // the system tells it once
		errno, err := unix.GetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_ERROR)
		s.reset = err == nil && errno == int(unix.ECONNRESET)
	}
	return s.reset
}

// finishOutput implements socket.
func (s *fdSocket) finishOutput() { unix.Shutdown(s.fd, unix.SHUT_WR) }

// passing implements socket.
func (s *fdSocket) passing() bool { return false }

// unread implements socket.
func (s *fdSocket) unread() int { return queued(s.fd) }

// queued is how many bytes were written to a socket that its peer has not acknowledged.
func queued(fd int) int {
	n, err := unix.IoctlGetInt(fd, unix.SIOCOUTQ)
	if err != nil {
		return 0
	}
	return n
}

// resent is how often the kernel has sent something in vain before the peer counts as unheard: with the
// shortest pauses, 200 and 400 ms, that takes 0.6 s.
const resent = 2

// unheard implements socket.
func (s *fdSocket) unheard() bool { return resends(s.fd) }

// resends says that something was sent so often, and the peer of a socket has acknowledged nothing since.
func resends(fd int) bool {
	info, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO)
	return err == nil && info.Unacked > 0 && info.Retransmits >= resent
}

// probePeer implements socket.
func (s *fdSocket) probePeer(within time.Duration) { probe(s.fd, within) }

// probe sets when the kernel looks for the peer of a socket. TCP_KEEP* are in whole seconds, TCP_USER_TIMEOUT
// is in ms. The second bounds how long bytes that were sent may go unacknowledged, for which keepalive is not
// responsible.
func probe(fd int, within time.Duration) {
	third := max(1, int(within/3/time.Second))
	for option, value := range map[int]int{
		unix.TCP_KEEPIDLE: third, unix.TCP_KEEPINTVL: third, unix.TCP_KEEPCNT: 3,
		unix.TCP_USER_TIMEOUT: int(within.Milliseconds()),
	} {
		// If the kernel refuses, its longer time-out stays.
		_ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, option, value)
	}
}

func (s *fdSocket) closeSocket() {
	s.epoll.conns[s.fd] = nil
	unix.Close(s.fd) // which unregisters it
}

// rawRead and rawWrite are system calls with nothing around them. RawSyscall does not tell the scheduler,
// which is right for calls that never block.
func rawRead(fd int, p []byte) (int, syscall.Errno) {
	n, _, errno := syscall.RawSyscall(syscall.SYS_READ, uintptr(fd),
		uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)))
	return int(n), errno
}

func rawWrite(fd int, p []byte) (int, syscall.Errno) {
	n, _, errno := syscall.RawSyscall(syscall.SYS_WRITE, uintptr(fd),
		uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)))
	return int(n), errno
}
