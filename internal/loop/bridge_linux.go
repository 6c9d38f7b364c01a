package loop

import (
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// bridge is a netSocket above a connection of the kernel, such as TLS over TCP: the kernel knows what the
// peer has got. The kernel counts bytes of TLS, and the loop those of plaintext.
type bridge struct {
	*netSocket
	peer syscall.RawConn
}

// newBridge makes a socket of a connection without a descriptor of its own.
func newBridge(nc net.Conn, c *Conn) socket {
	if sc, ok := BelowTLS(nc).(syscall.Conn); ok {
		if peer, err := sc.SyscallConn(); err == nil {
			return &bridge{newNetSocket(nc, c, func() bool { return waitBroken(peer) }), peer}
		}
	}
	return newNetSocket(nc, c, nil)
}

// waitBroken waits until a peer that has ended its input resets the connection, or the connection is closed
// here. A goroutine that only reads would never hear of that: after the end of the input there is nothing
// left to read.
func waitBroken(peer syscall.RawConn) (reset bool) {
	err := peer.Read(func(fd uintptr) bool { // is called again when something happens
		reset = isClosed(int(fd))
		return reset
	})
	return err == nil && reset
}

// isClosed says that the connection of a socket has ended: no acknowledgement can come.
func isClosed(fd int) bool {
	info, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO)
	return err == nil && info.State == unix.BPF_TCP_CLOSE
}

// controlPeer calls f with the descriptor of the peer's connection, if that is open.
func (b *bridge) controlPeer(f func(fd int)) { b.peer.Control(func(fd uintptr) { f(int(fd)) }) }

// oneRecord is how long a piece may be that becomes one TLS record: nothing of that can be read before all
// of it has arrived.
const oneRecord = 1 << 10

// acknowledged implements socket: the most that the peer can have got, if its connection has broken. If some
// bytes of TLS are missing, the last record cannot be read.
func (b *bridge) acknowledged() (a account) {
	b.controlPeer(func(fd int) {
		if !isClosed(fd) { // an acknowledgement may still come
			return
		}
		missing := queued(fd) > 0
		b.mu.Lock()
		defer b.mu.Unlock()
		a = account{acked: b.took, known: true}
		switch {
		case !missing:
		// All of the last piece is in one record, which cannot be verified before it is whole.
		case b.took-b.last <= oneRecord:
			a.acked = b.last
		default:
			// A long piece is several records, of which only the last one is known to be torn: one byte less
			// is all that is sure.
			a.acked--
		}
	})
	return a
}

// unread implements socket. What has not been encrypted yet has no count in the kernel.
func (b *bridge) unread() (n int) {
	if n = b.netSocket.unread(); n == 0 {
		b.controlPeer(func(fd int) { n = queued(fd) })
	}
	return n
}

// unheard implements socket.
func (b *bridge) unheard() (is bool) {
	b.controlPeer(func(fd int) { is = resends(fd) })
	return is
}

// probePeer implements socket.
func (b *bridge) probePeer(within time.Duration) {
	b.controlPeer(func(fd int) { probe(fd, within) })
}

// descriptor implements socket.
func (b *bridge) descriptor() (n int) {
	n = -1
	b.controlPeer(func(fd int) { n = fd })
	return n
}
