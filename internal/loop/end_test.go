package loop

import (
	"bytes"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"
)

// halfEcho goes on when its peer has ended.
type halfEcho struct{ echo }

func (*halfEcho) EOF() bool { return true }

// serve has l serve nc with h.
func serve(t testing.TB, l *Loop, nc net.Conn, h Handler, e *echo) {
	t.Helper()
	e.l, e.closed = l, make(chan error, 1)
	added := make(chan error)
	l.Post(func() {
		var err error
		e.c, err = l.Add(nc, h)
		added <- err
	})
	if err := <-added; err != nil {
		t.Fatal(err)
	}
}

// ended waits for the end of e.
func (e *echo) ended(t *testing.T) error {
	t.Helper()
	select {
	case err := <-e.closed:
		return err
	case <-time.After(patience):
		t.Fatal("the connection was not closed")
		return nil
	}
}

// A unix socket hangs up when its peer has closed; that is a reset only when the
// peer has not read everything.
func TestEndOfAUnixSocket(t *testing.T) {
	onBoth(t, func(t *testing.T, l *Loop) {
		for _, reads := range []bool{true, false} {
			client, server := connected(t, "unix", filepath.Join(t.TempDir(), "s"))
			h := &halfEcho{}
			serve(t, l, server, h, &h.echo)
			if _, err := client.Write([]byte("hello")); err != nil {
				t.Fatal(err)
			}
			n := 1 // and leaves the rest, which came with it
			if reads {
				n = 5
			}
			if _, err := io.ReadFull(client, make([]byte, n)); err != nil {
				t.Fatal(err)
			}
			client.Close()
			if _, portable := l.poller.(*portable); portable && reads {
				l.Post(func() { h.c.Close() }) // it does not see more than the end of its input
			}
			if err := h.ended(t); reads != (err == io.EOF || err == net.ErrClosed) {
				t.Errorf("peer has read all: %v, closed with %v", reads, err)
			}
		}
	})
}

// resetConn is a connection that is no descriptor, and is reset.
type resetConn struct{ net.Conn }

func (resetConn) Read([]byte) (int, error) { return 0, syscall.ECONNRESET }

func TestResetThroughABridge(t *testing.T) {
	onBoth(t, func(t *testing.T, l *Loop) {
		near, far := net.Pipe()
		defer far.Close()
		h := &halfEcho{}
		serve(t, l, resetConn{near}, h, &h.echo)
		if err := h.ended(t); err != ErrReset && err != syscall.ECONNRESET {
			t.Errorf("closed with %v", err)
		}
	})
}

// A handler hears of the end of its input, and of what came with it, before it hears of a reset, though all
// are there when the loop looks.
func TestEndComesBeforeReset(t *testing.T) {
	onBoth(t, func(t *testing.T, l *Loop) {
		for _, last := range []string{"", "x"} {
			near, far := net.Pipe()
			defer far.Close()
			h := &lastWords{}
			h.l, h.closed = l, make(chan error, 1)
			l.Post(func() {
				h.c, _ = l.addConn(h, func(c *Conn) (socket, error) {
					s := newNetSocket(endingConn{near, last}, c, func() bool { return true })
					reset := func() bool {
						s.mu.Lock()
						defer s.mu.Unlock()
						return s.reset
					}
					for end := time.Now().Add(patience); !reset() && time.Now().Before(end); {
						time.Sleep(time.Millisecond)
					}
					return s, nil
				})
			})
			if err := h.ended(t); err != ErrReset || !h.eof || string(h.seen) != last {
				t.Errorf("closed with %v, read %q, end of the input: %v", err, h.seen, h.eof)
			}
		}
	})
}

// endingConn has one last piece of input, with the end of it.
type endingConn struct {
	net.Conn
	last string
}

func (c endingConn) Read(p []byte) (int, error) { return copy(p, c.last), io.EOF }

// lastWords notes what its peer has said, and whether it has ended its side.
type lastWords struct {
	echo
	seen []byte
	eof  bool
}

func (h *lastWords) Read(buf []byte) int { h.seen = append(h.seen, buf...); return len(buf) }
func (h *lastWords) EOF() bool           { h.eof = true; return true }

// A peer that reads nothing keeps no goroutine once the loop has closed its
// connection.
func TestBridgeEndsThoughItsPeerReadsNothing(t *testing.T) {
	onBoth(t, func(t *testing.T, l *Loop) {
		near, far := net.Pipe()
		defer far.Close()
		e := &echo{}
		serve(t, l, near, e, e)
		if _, err := far.Write([]byte("hello")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(50 * time.Millisecond)
		l.Post(func() { e.c.Close() })
		e.ended(t)
		for deadline := time.Now().Add(patience); copying(); time.Sleep(10 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatal("goroutines are left")
			}
		}
	})
}

// copying says that goroutines serve a connection beside the loop.
func copying() bool {
	stacks := make([]byte, 1<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	return bytes.Contains(stacks, []byte("loop.(*netSocket)"))
}

// closer closes its connection while it reads, and reads on.
type closer struct {
	echo
	seen []byte
}

func (c *closer) Read(buf []byte) int {
	if len(buf) < c.minLen {
		return 0
	}
	c.c.Close()
	other := c.l.getBuffer(len(buf)) // as anybody may have
	other = append(other, make([]byte, len(buf))...)
	c.seen = append(c.seen, buf...)
	c.l.Put(other)
	return len(buf)
}

// The input that a handler looks at stays its own though it closes the
// connection.
func TestInputOutlivesItsConnection(t *testing.T) {
	onBoth(t, func(t *testing.T, l *Loop) {
		h := &closer{}
		h.minLen = 10
		near, far := net.Pipe()
		defer far.Close()
		serve(t, l, near, h, &h.echo)
		l.Post(func() { h.c.Pause(0) })
		far.Write([]byte("0123456789"))
		time.Sleep(50 * time.Millisecond)
		l.Post(func() { h.c.Resume() })
		h.ended(t)
		l.Close()
		if string(h.seen) != "0123456789" {
			t.Errorf("the handler saw %q", h.seen)
		}
	})
}

func TestCloseTwice(t *testing.T) {
	onBoth(t, func(t *testing.T, l *Loop) {
		l.Close()
		r, w, err := os.Pipe() // takes the numbers that are free now
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		defer w.Close()
		l.Close()
		r.SetReadDeadline(time.Now().Add(50 * time.Millisecond)) //house:brief nothing comes
		if n, _ := r.Read(make([]byte, 8)); n > 0 {
			t.Errorf("a closed loop wrote %d bytes into somebody else's descriptor", n)
		}
	})
}

// After a reset the kernel still knows what the peer had got.
func TestResetAndWhatWasAcknowledged(t *testing.T) {
	onBoth(t, func(t *testing.T, l *Loop) {
		e := &echo{}
		client := dial(t, l, e)
		if _, err := client.Write([]byte("hello")); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(client, make([]byte, 5)); err != nil {
			t.Fatal(err)
		}
		account := make(chan uint64)
		for n := uint64(0); n < 5; { // a peer may take its time to acknowledge
			l.Post(func() { account <- e.c.sock.acknowledged().acked })
			n = <-account
		}
		client.SetLinger(0)
		client.Close()
		if err := e.ended(t); err == io.EOF || err == net.ErrClosed {
			t.Errorf("closed with %v", err)
		}
		if n, known, _ := e.c.Acknowledged(); n != 5 || !known {
			t.Errorf("%d bytes were acknowledged (known: %v), want 5", n, known)
		}
	})
}
