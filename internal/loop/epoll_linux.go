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

// maxEvents is how many events one wait fetches.
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
	fd     int
	bell   int // eventfd
	outer  int
	file   *os.File // outer, as the runtime knows it
	wakes  syscall.RawConn
	armed  bool // events wake the runtime
	busy   int  // rounds since the loop slept last
	conns  []*fdSocket
	ready  []*Listener // that have connections to accept
	events [maxEvents]unix.EpollEvent
	count  int
	poll   func(fd uintptr) bool
}

// busyRounds is after how many rounds without sleep a loop is busy.
const busyRounds = 2

func newPoller() (poller, error) {
	e := &epoll{fd: -1, bell: -1, outer: -1}
	if err := e.open(); err != nil {
		e.close()
		return nil, fmt.Errorf("loop: epoll: %w", err)
	}
	e.poll = e.fetch
	return e, nil
}

func (e *epoll) open() (err error) {
	if e.fd, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return err
	}
	if e.bell, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		return err
	}
	event := unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(e.bell)}
	if err = unix.EpollCtl(e.fd, unix.EPOLL_CTL_ADD, e.bell, &event); err != nil {
		return err
	}
	if e.outer, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return err
	}
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

// fetch gets the events that are ready; true ends the wait.
func (e *epoll) fetch(uintptr) bool {
	n, _, errno := syscall.RawSyscall6(syscall.SYS_EPOLL_PWAIT, uintptr(e.fd),
		uintptr(unsafe.Pointer(&e.events[0])), maxEvents, 0, 0, 0)
	if errno != 0 {
		n = 0
	}
	e.count = int(n)
	if n == 0 {
		e.busy = 0
	}
	return n > 0
}

// arm makes events wake the runtime, or not.
func (e *epoll) arm(on bool) {
	var event unix.EpollEvent
	if on {
		event.Events = unix.EPOLLIN
	}
	e.armed = on
	unix.EpollCtl(e.outer, unix.EPOLL_CTL_MOD, e.fd, &event) // it fails only if fd is not registered
}

// sleep waits for events.
func (e *epoll) sleep() {
	e.busy++
	if e.armed && e.busy > busyRounds {
		e.arm(false)
	}
	if !e.armed {
		if e.fetch(0) {
			return
		}
		e.arm(true)
	}
	if err := e.wakes.Read(e.poll); err != nil {
		panic("loop: waiting for events: " + err.Error()) // the descriptor was closed under the loop
	}
}

func (e *epoll) wait(l *Loop) {
	e.sleep()
	l.begin()
	for i := range e.count {
		ev := &e.events[i]
		if int(ev.Fd) == e.bell {
			var count [8]byte
			rawRead(e.bell, count[:])
			continue
		}
		s := e.conns[ev.Fd]
		if s == nil {
			continue
		}
		if s.listener != nil {
			e.ready = append(e.ready, s.listener)
			continue
		}
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
		n.accept()
		e.ready[i] = nil
	}
	e.ready = e.ready[:0]
}

func (e *epoll) wake() {
	one := [8]byte{1}
	rawWrite(e.bell, one[:])
}

func (e *epoll) close() {
	for _, s := range e.conns {
		if s != nil && s.listener != nil {
			s.listener.end()
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

// adopt takes the descriptor of a TCP or unix connection out of the runtime's
// hands, and builds a bridge to any other connection.
func (e *epoll) adopt(nc net.Conn, c *Conn) (socket, error) {
	if sc, ok := nc.(syscall.Conn); ok {
		fd, err := detach(nc, sc)
		if err != nil {
			return nil, err
		}
		return e.register(fd, c)
	}
	bridge, fd, err := newBridge(nc, c)
	if err != nil {
		return nil, err
	}
	s, err := e.register(fd, c)
	if err != nil {
		bridge.far.Close()
		return nil, err
	}
	s.bridge = bridge
	bridge.start()
	return s, nil
}

// register waits for events of a descriptor that does not block. It closes fd if it fails.
func (e *epoll) register(fd int, c *Conn) (*fdSocket, error) {
	s := &fdSocket{epoll: e, conn: c, fd: fd, events: unix.EPOLLIN}
	event := unix.EpollEvent{Events: s.events, Fd: int32(fd)}
	if err := unix.EpollCtl(e.fd, unix.EPOLL_CTL_ADD, fd, &event); err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("loop: epoll_ctl: %w", err)
	}
	e.put(s)
	return s, nil
}

func (e *epoll) put(s *fdSocket) {
	for len(e.conns) <= s.fd {
		e.conns = append(e.conns, nil)
	}
	e.conns[s.fd] = s
}

// detach returns a non-blocking descriptor of c, whose raw form is sc. c is closed.
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
	bridge   *bridge   // or nil
	listener *Listener // nil: it is a connection
	fd       int
	events   uint32
	sent     uint64 // bytes written
	reset    bool   // a read has met ECONNRESET
}

func (s *fdSocket) descriptor() int { return s.fd }

func (s *fdSocket) read(p []byte) (int, error) {
	n, errno := rawRead(s.fd, p)
	switch {
	case errno == 0 && n == 0:
		return 0, io.EOF
	case errno == 0:
		return n, nil
	case errno == unix.EAGAIN || errno == unix.EINTR:
		return 0, errAgain
	}
	s.reset = errno == unix.ECONNRESET
	return 0, errno
}

func (s *fdSocket) write(p []byte) (int, error) {
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

func (s *fdSocket) interest(read, write bool) {
	events := uint32(0)
	if s.conn.lingering && s.conn.eof { // both sides have ended: epoll would say so for ever
		unix.EpollCtl(s.epoll.fd, unix.EPOLL_CTL_DEL, s.fd, nil)
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
	event := unix.EpollEvent{Events: events, Fd: int32(s.fd)}
	// It fails only for a descriptor that is not registered, and this one is until close.
	unix.EpollCtl(s.epoll.fd, unix.EPOLL_CTL_MOD, s.fd, &event)
}

// acknowledged implements socket. TCP has an account (TCP_INFO, tcpi_bytes_acked), which can be read after a
// reset. A unix socket is reset when its peer closes it and has not read all: then the last byte was not
// read.
func (s *fdSocket) acknowledged() account {
	if s.bridge != nil {
		return s.bridge.account()
	}
	info, err := unix.GetsockoptTCPInfo(s.fd, unix.IPPROTO_TCP, unix.TCP_INFO)
	switch {
	case err == nil:
		return account{acked: info.Bytes_acked, known: true}
	case s.sent > 0 && s.wasReset():
		return account{acked: s.sent - 1, known: true, final: true}
	}
	return account{}
}

func (s *fdSocket) wasReset() bool {
	if !s.reset { // the system tells it once
		errno, err := unix.GetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_ERROR)
		s.reset = err == nil && errno == int(unix.ECONNRESET)
	}
	return s.reset
}

// finish implements socket.
func (s *fdSocket) finish() {
	if s.bridge != nil {
		s.bridge.finishing.Store(true)
	}
	unix.Shutdown(s.fd, unix.SHUT_WR)
}

// passing implements socket: what a bridge has not passed on would be lost with the process.
func (s *fdSocket) passing() bool { return s.bridge != nil && !s.bridge.passed.Load() }

// unread implements socket.
func (s *fdSocket) unread() int {
	if s.bridge != nil {
		return s.bridge.unread()
	}
	return queued(s.fd)
}

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

// unheard implements wire.
func (s *fdSocket) unheard() (is bool) {
	s.control(func(fd int) {
		info, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO)
		is = err == nil && info.Unacked > 0 && info.Retransmits >= resent
	})
	return is
}

// probe implements wire.
func (s *fdSocket) probe(within time.Duration) {
	third := max(1, int(within/3/time.Second))
	s.control(func(fd int) {
		for option, value := range map[int]int{
			unix.TCP_KEEPIDLE: third, unix.TCP_KEEPINTVL: third, unix.TCP_KEEPCNT: 3,
			unix.TCP_USER_TIMEOUT: int(within.Milliseconds()),
		} {
			// If the kernel refuses, its longer time-out stays.
			_ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, option, value)
		}
	})
}

// control calls f with the descriptor of the connection to the peer.
func (s *fdSocket) control(f func(fd int)) {
	if s.bridge != nil {
		s.bridge.control(f)
		return
	}
	f(s.fd)
}

func (s *fdSocket) close() {
	s.epoll.conns[s.fd] = nil
	unix.Close(s.fd) // which unregisters it
	if s.bridge != nil {
		s.bridge.closed()
	}
}

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
