package loop

import (
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// closeWithin is how long the peer of a bridge may take to read the last that was
// written to it.
const closeWithin = time.Second

// bridge carries a connection that is no descriptor, as TLS: two goroutines
// copy between it and a socket pair, whose near end the loop serves.
type bridge struct {
	loop *Loop
	conn *Conn
	nc   net.Conn
	far  *net.UnixConn
}

// newBridge returns the near end, which does not block.
func newBridge(nc net.Conn, c *Conn) (b *bridge, near int, err error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, -1, fmt.Errorf("loop: socketpair: %w", err)
	}
	f := os.NewFile(uintptr(pair[1]), "socketpair")
	far, err := net.FileConn(f)
	f.Close()
	if err != nil {
		unix.Close(pair[0])
		return nil, -1, err
	}
	b = &bridge{c.loop, c, nc, far.(*net.UnixConn)}
	go b.inbound()
	go b.outbound()
	return b, pair[0], nil
}

// inbound copies what the peer sends to the loop until either side ends; the loop
// sees the end of the stream and answers what it still has to. Many clients end
// TLS without saying so.
func (b *bridge) inbound() {
	if _, err := io.Copy(b.far, b.nc); err != nil && err != io.ErrUnexpectedEOF {
		b.reset()
		return
	}
	b.far.CloseWrite()
}

// outbound copies what the loop writes to the peer until the loop closes its
// side, and then ends both, and inbound with them.
func (b *bridge) outbound() {
	if _, err := io.Copy(b.nc, b.far); err != nil {
		b.reset()
		return
	}
	b.end()
}

// reset tells the loop that what it has written was not read. It says nothing
// new to a loop that has closed the connection.
func (b *bridge) reset() {
	b.loop.Post(func() { b.conn.shut(ErrReset) })
	b.end()
}

func (b *bridge) end() {
	b.nc.Close()
	b.far.Close()
}

// closed is told that the loop has closed the near end: a peer that does not
// read must not keep the goroutines.
func (b *bridge) closed() { b.nc.SetDeadline(time.Now().Add(closeWithin)) }
