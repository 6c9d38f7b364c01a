package loop

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Listen has the loop accept the connections of ln, on TCP or a unix socket, which the caller must not use
// any more; keepAlive is as for Listener.KeepAlive. The file of a *net.UnixListener is removed in the end. It
// returns nil if this loop accepts nothing by itself; then ln stays the caller's. It may be called from any
// goroutine.
func (l *Loop) Listen(ln net.Listener, keepAlive time.Duration, a Acceptor) *Listener {
	// A portable loop has no descriptors to wait on: then the caller accepts on a goroutine of its own.
	e, ok := l.poller.(*epoll)
	if !ok {
		return nil
	}
	sc, ok := ln.(syscall.Conn)
	if !ok {
		return nil
	}
	u, isUnix := ln.(*net.UnixListener)
	if isUnix {
		u.SetUnlinkOnClose(false) // Listener.Close removes the file
	}
	// The loop has a descriptor of its own from here on, and the runtime's poller none that it would wake
	// for.
	fd, err := detach(ln, sc)
	if err != nil {
		if isUnix {
			u.SetUnlinkOnClose(true)
		}
		return nil
	}
	n := &Listener{loop: l, acceptor: a, addr: ln.Addr(), fd: fd, idle: keepAlive, retry: retryFirst}
	if isUnix {
		n.path = n.addr.String()
	}
	// A listener on one address saves a getsockname for each connection. On all addresses each connection has
	// its own.
	if tcp, ok := n.addr.(*net.TCPAddr); ok && !tcp.IP.IsUnspecified() {
		n.local = tcp.String()
	}
	l.Post(func() { e.addListener(n) })
	return n
}

// KeepAlive sets after how long without bytes the connections that are accepted from now on are probed; 0 or
// less: never. It may be called from any goroutine.
func (n *Listener) KeepAlive(idle time.Duration) {
	n.loop.Post(func() {
		if !n.closed {
			n.idle, n.inherited = idle, false
			n.setOptions(n.fd)
		}
	})
}

// setOptions sets the options of a socket, if it is one of TCP. Connections have those that the listening
// socket had when they were made.
func (n *Listener) setOptions(fd int) {
	if n.addr.Network() != "tcp" {
		return
	}
	// A loop writes all that it has once a round, so Nagle's algorithm could only delay it.
	unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
	if n.idle <= 0 {
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_KEEPALIVE, 0)
		return
	}
	// The kernel counts whole seconds. After idle without bytes it probes three times, a third of idle apart,
	// so a dead peer is noticed after twice idle.
	seconds := func(d time.Duration) int { return max(int(d/time.Second), 1) }
	unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_KEEPIDLE, seconds(n.idle))
	unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_KEEPINTVL, seconds(n.idle/3))
	unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_KEEPCNT, 3)
	unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1)
}

// Close stops listening. It must not be called on the loop.
func (n *Listener) Close() error {
	done := make(chan struct{})
	if n.loop.Post(func() { n.endListening(); close(done) }) {
		<-done
		return nil
	}
	<-n.loop.Done()
	n.endListening() // if the loop has ended before it listened
	return nil
}

// endListening runs on the loop, or when that has ended.
func (n *Listener) endListening() {
	if n.closed {
		return
	}
	n.closed = true
	// The loop may have ended before it came to addListener: then the table has nothing at fd.
	if e := n.loop.poller.(*epoll); n.fd < len(e.conns) && e.conns[n.fd] != nil {
		// The kernel does not forget a socket by itself of which others have copies.
		e.watchDescriptor(unix.EPOLL_CTL_DEL, n.fd, 0)
		e.conns[n.fd] = nil
	}
	if n.path != "" {
		os.Remove(n.path)
	}
	unix.Close(n.fd)
}

// addListener begins to accept.
func (e *epoll) addListener(n *Listener) {
	e.putSocket(&fdSocket{epoll: e, fd: n.fd, listener: n})
	n.setOptions(n.fd)
	if err := e.watchDescriptor(unix.EPOLL_CTL_ADD, n.fd, unix.EPOLLIN); err != nil {
		n.acceptor.AcceptFailed(err)
	}
}

// watchDescriptor says which events of fd are waited for.
func (e *epoll) watchDescriptor(op, fd int, events uint32) error {
	err := unix.EpollCtl(e.fd, op, fd, &unix.EpollEvent{Events: events, Fd: int32(fd)})
	return os.NewSyscallError("epoll_ctl", err)
}

// acceptWaiting accepts the connections that wait.
func (n *Listener) acceptWaiting() {
	for range maxAccepts {
		if n.closed {
			return
		}
		fd, from, err := unix.Accept4(n.fd, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
		switch {
		case err == nil:
			n.retry = retryFirst
			if !n.inherited {
				n.setOptions(fd)
			}
			in := Incoming{fd: fd, Remote: addressOf(from), Local: n.local}
			if in.Local == "" && in.Remote != "" {
				if at, err := unix.Getsockname(fd); err == nil {
					in.Local = addressOf(at)
				}
			}
			n.acceptor.Accepted(in)
		// Whoever connects from now on finds the socket with the options that it has now.
		case errors.Is(err, unix.EAGAIN):
			n.inherited = true
			return
		// that client has gone already; the next one may be there
		case errors.Is(err, unix.EINTR), errors.Is(err, unix.ECONNABORTED):
		default: // out of descriptors, say: some will be free again
			n.acceptor.AcceptFailed(os.NewSyscallError("accept4", err))
			n.pauseAccepting()
			return
		}
	}
}

// pauseAccepting stops accepting for a while. The socket stays readable as long as somebody waits: without a
// pause the loop would do nothing but fail.
func (n *Listener) pauseAccepting() {
	e := n.loop.poller.(*epoll)
	e.watchDescriptor(unix.EPOLL_CTL_MOD, n.fd, 0)
	n.loop.After(n.retry, func() {
		if !n.closed {
			e.watchDescriptor(unix.EPOLL_CTL_MOD, n.fd, unix.EPOLLIN)
		}
	})
	n.retry = min(2*n.retry, retryMost)
}

// addressOf is the address of a TCP socket as package net writes it, "" for other sockets.
func addressOf(sa unix.Sockaddr) string {
	switch sa := sa.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrPortFrom(netip.AddrFrom4(sa.Addr), uint16(sa.Port)).String()
	case *unix.SockaddrInet6:
		addr := netip.AddrFrom16(sa.Addr).Unmap()
		if sa.ZoneId != 0 {
			zone := strconv.Itoa(int(sa.ZoneId))
			if i, err := net.InterfaceByIndex(int(sa.ZoneId)); err == nil {
				zone = i.Name
			}
			addr = addr.WithZone(zone)
		}
		return netip.AddrPortFrom(addr, uint16(sa.Port)).String()
	}
	return ""
}

// Take serves in, a connection that a loop has accepted. l need not be the loop that accepted it.
// If it fails, the descriptor is closed. It must be called on l.
func (l *Loop) Take(in Incoming, h Handler) (*Conn, error) {
	return l.addConn(h, func(c *Conn) (socket, error) { return l.poller.(*epoll).registerSocket(in.fd, c) })
}

// Refuse writes b, as far as it can be written at once, and closes the connection. A short b, such as one
// error line, fits into the empty buffer of a new socket, so it is not waited for.
func (in Incoming) Refuse(b []byte) {
	if len(b) > 0 {
		rawWrite(in.fd, b)
	}
	unix.Close(in.fd)
}
