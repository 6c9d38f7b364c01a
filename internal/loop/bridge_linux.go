package loop

import (
	"fmt"
	"io"
	"net"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// closeWithin is how long the peer of a bridge may take to read the last that was
// written to it.
const closeWithin = time.Second

// bridge carries a connection without a descriptor of its own, such as TLS. Two goroutines copy between it
// and a socket pair; the loop serves the near end of that. The fields without atomics are set before the
// goroutines start and stay as they are.
type bridge struct {
	loop *Loop
	conn *Conn
	nc   net.Conn
	far  *net.UnixConn

	finishing atomic.Bool   // the loop writes no more, and closes once the peer has got everything
	passed    atomic.Bool   // everything that it wrote is with the kernel
	over      chan struct{} // is closed when the loop has closed the near end

	// given and last are written by outbound alone. Both are plaintext, and the kernel counts what TLS makes
	// of it.
	given atomic.Uint64           // bytes of output that were given to nc
	last  atomic.Uint64           // the same without the last Write
	final atomic.Pointer[account] // when the connection broke
}

// newBridge returns the near end, which does not block. The caller calls start, or closes far.
func newBridge(nc net.Conn, c *Conn) (b *bridge, near int, err error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, -1, fmt.Errorf("loop: socketpair: %w", err)
	}
	// The far end is a net.Conn, so the goroutines that copy park in the runtime's poller and hold no
	// threads.
	f := os.NewFile(uintptr(pair[1]), "socketpair")
	far, err := net.FileConn(f)
	f.Close()
	if err != nil {
		unix.Close(pair[0])
		return nil, -1, err
	}
	b = &bridge{loop: c.loop, conn: c, nc: nc, far: far.(*net.UnixConn), over: make(chan struct{})}
	return b, pair[0], nil
}

// start begins to copy: not before the loop has the near end, for what is copied may end the connection.
func (b *bridge) start() {
	go b.inbound()
	go b.outbound()
}

// inbound copies what the peer sends to the loop, until either side ends. The loop sees the end of the
// stream, and still answers what came before: many clients end TLS without saying so.
func (b *bridge) inbound() {
	if _, err := io.Copy(b.far, b.nc); err != nil && err != io.ErrUnexpectedEOF {
		b.reset()
		return
	}
	b.far.CloseWrite()
	if b.waitBroken() {
		b.reset()
	}
}

// outbound copies what the loop writes to the peer, until the loop closes its side. Then it ends both
// connections, and inbound with them.
func (b *bridge) outbound() {
	if _, err := io.Copy(passedOn{b}, b.far); err != nil {
		b.reset()
		return
	}
	if b.finishing.Load() {
		b.endOutput()
		b.passed.Store(true)
		// The near end must stay open until the loop closes it: otherwise it would look as if the peer had
		// ended.
		<-b.over
	}
	b.endBridge()
}

// endOutput lets the peer see the end of the stream, of TLS and of TCP, behind what was written. TLS says
// close_notify first: without it the peer could not tell the end from an attack that cuts the stream.
func (b *bridge) endOutput() {
	for _, nc := range []net.Conn{b.nc, b.raw()} {
		if c, ok := nc.(interface{ CloseWrite() error }); ok {
			c.CloseWrite()
		}
	}
}

// raw is the connection below TLS.
func (b *bridge) raw() net.Conn {
	if over, ok := b.nc.(interface{ NetConn() net.Conn }); ok {
		return over.NetConn()
	}
	return b.nc
}

// unread is how many bytes the peer has not acknowledged, once everything is with the kernel; before that it
// is 1. The 1 stands for "some": what has not been encrypted yet has no count in the kernel.
func (b *bridge) unread() (n int) {
	if !b.passed.Load() {
		return 1
	}
	b.controlPeer(func(fd int) { n = queued(fd) })
	return n
}

// controlPeer calls f with the descriptor of the peer's connection, if that has one and is open.
func (b *bridge) controlPeer(f func(fd int)) {
	sc, ok := b.raw().(syscall.Conn)
	if !ok {
		return
	}
	if raw, err := sc.SyscallConn(); err == nil {
		raw.Control(func(fd uintptr) { f(int(fd)) })
	}
}

// passedOn counts what it writes to the peer.
type passedOn struct{ *bridge }

func (b passedOn) Write(p []byte) (int, error) {
	given := b.given.Load()
	b.last.Store(given)
	b.given.Store(given + uint64(len(p)))
	return b.nc.Write(p)
}

// waitBroken waits until a peer that has ended its input resets the connection, or the connection is closed
// here. A goroutine that only reads would never hear of that: after the end of the input there is nothing
// left to read.
func (b *bridge) waitBroken() (reset bool) {
	sc, ok := b.raw().(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return false
	}
	err = raw.Read(func(fd uintptr) bool { // is called again when something happens
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

// oneRecord is how long a Write may be that becomes one TLS record: nothing of that can be read before all
// of it has arrived.
const oneRecord = 1 << 10

// acknowledged is the most that the peer can have got, if its connection has broken. The kernel counts bytes
// of TLS. If some of those are missing, the last record cannot be read.
func (b *bridge) acknowledged() (a account) {
	b.controlPeer(func(fd int) {
		if !isClosed(fd) {
			return
		}
		missing := queued(fd) > 0
		last := b.last.Load()
		// Before the connection is closed for good an acknowledgement may still come, and no account is
		// given.
		a = account{acked: b.given.Load(), known: true}
		switch {
		case !missing:
		// All of the last Write is in one record, which cannot be verified before it is whole.
		case a.acked-last <= oneRecord:
			a.acked = last
		default:
			// A long Write is several records, of which only the last one is known to be torn: one byte less
			// is all that is sure.
			a.acked--
		}
	})
	return a
}

// reset tells the loop that what it has written was not read, before the loop can see an end of the stream.
// It says nothing new to a loop that has closed the connection.
func (b *bridge) reset() {
	a := b.acknowledged()
	if a.known {
		b.final.CompareAndSwap(nil, &a)
	}
	b.loop.Post(func() { b.conn.shutConn(ErrReset) })
	<-b.over
	b.endBridge()
}

// account is what the peer has got of a connection that has broken. It is called on the loop. What reset has
// noted counts, for afterwards the descriptor is closed and tells nothing.
func (b *bridge) account() account {
	if a := b.final.Load(); a != nil {
		return *a
	}
	return b.acknowledged()
}

func (b *bridge) endBridge() {
	b.nc.Close()
	b.far.Close()
}

// nearClosed notes that the loop has closed the near end: a peer that does not read must not keep the
// goroutines.
func (b *bridge) nearClosed() {
	close(b.over)
	b.nc.SetDeadline(time.Now().Add(closeWithin))
}
