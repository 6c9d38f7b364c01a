package loop

import (
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// porch has a loop serve an echo to each connection that it accepts.
type porch struct {
	l      *Loop
	full   bool // refuse them
	came   chan Incoming
	failed chan error
}

func newPorch(l *Loop) *porch {
	return &porch{l: l, came: make(chan Incoming, 100), failed: make(chan error, 100)}
}

func (p *porch) Accepted(in Incoming) {
	p.came <- in
	if p.full {
		in.Refuse([]byte("full"))
		return
	}
	e := &echo{l: p.l, closed: make(chan error, 1)}
	e.c, _ = p.l.Take(in, e)
}

func (p *porch) AcceptFailed(err error) { p.failed <- err }

func (p *porch) echoes(t *testing.T, nc net.Conn) {
	t.Helper()
	nc.SetDeadline(time.Now().Add(patience))
	b := make([]byte, 5)
	if _, err := nc.Write([]byte("hello")); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(nc, b); err != nil || string(b) != "hello" {
		t.Fatalf("got %q, %v", b, err)
	}
}

// A loop accepts on TCP and unix sockets, those that connected before it listened too, until Close.
func TestListen(t *testing.T) {
	for _, network := range []string{"tcp", "unix"} {
		t.Run(network, func(t *testing.T) {
			l := native(t)
			addr := "127.0.0.1:0"
			if network == "unix" {
				addr = filepath.Join(t.TempDir(), "socket")
			}
			ln, err := net.Listen(network, addr)
			if err != nil {
				t.Fatal(err)
			}
			dial := func() net.Conn {
				nc, err := net.Dial(network, ln.Addr().String())
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { nc.Close() })
				return nc
			}
			early := dial()
			p := newPorch(l)
			n := l.Listen(ln, 100*time.Second, p)
			for _, nc := range []net.Conn{early, dial(), dial()} {
				p.echoes(t, nc)
				in := <-p.came
				if network != "tcp" {
					continue
				}
				if in.Remote != nc.LocalAddr().String() || in.Local != nc.RemoteAddr().String() {
					t.Errorf("accepted %s at %s, dialled %s from %s", in.Remote, in.Local, nc.RemoteAddr(),
						nc.LocalAddr())
				}
				hasOptions(t, in.fd, 100)
			}
			n.KeepAlive(300 * time.Second)
			set := make(chan bool)
			l.Post(func() { close(set) })
			<-set
			changed := dial()
			p.echoes(t, changed)
			if in := <-p.came; network == "tcp" {
				hasOptions(t, in.fd, 300)
			}
			full := make(chan bool)
			l.Post(func() { p.full = true; close(full) })
			<-full
			refused := dial()
			if b, _ := io.ReadAll(refused); string(b) != "full" {
				t.Errorf("got %q, want the refusal", b)
			}
			n.Close()
			n.Close()
			if nc, err := net.Dial(network, n.Addr().String()); err == nil {
				nc.Close()
				t.Error("it listens behind Close")
			}
			if _, err := os.Stat(addr); network == "unix" && !errors.Is(err, os.ErrNotExist) {
				t.Errorf("the file of the socket is left: %v", err)
			}
			p.echoes(t, early)
		})
	}
}

func hasOptions(t *testing.T, fd, idle int) {
	t.Helper()
	for _, o := range []struct{ name, level, option, want int }{
		{0, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1},
		{1, unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1},
		{2, unix.IPPROTO_TCP, unix.TCP_KEEPIDLE, idle},
		{3, unix.IPPROTO_TCP, unix.TCP_KEEPINTVL, idle / 3},
		{4, unix.IPPROTO_TCP, unix.TCP_KEEPCNT, 3},
	} {
		if got, err := unix.GetsockoptInt(fd, o.level, o.option); err != nil || got != o.want {
			t.Errorf("option %d is %d (%v), want %d", o.name, got, err, o.want)
		}
	}
}

// If no descriptors are left, clients wait until some are free again. A loop that ends closes its listeners.
func TestListenWithoutDescriptors(t *testing.T) {
	l := native(t)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := ln.Addr().String()
	p := newPorch(l)
	l.Listen(ln, 0, p)
	first, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	p.echoes(t, first)

	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	none := unix.Rlimit{Cur: 0, Max: limit.Max}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &none); err != nil {
		t.Fatal(err)
	}
	restore := func() { unix.Setrlimit(unix.RLIMIT_NOFILE, &limit) }
	defer restore()
	to := &unix.SockaddrInet4{Port: ln.Addr().(*net.TCPAddr).Port, Addr: [4]byte{127, 0, 0, 1}}
	if err := unix.Connect(fd, to); err != nil {
		t.Fatal(err)
	}
	for range 3 { // it tries again and again, but not all the time
		if err := <-p.failed; !errors.Is(err, unix.EMFILE) {
			t.Fatalf("got %v, want EMFILE", err)
		}
	}
	p.echoes(t, first)
	restore()
	<-p.came
	select {
	case <-p.came:
	case <-time.After(patience):
		t.Error("the client that waited was not accepted")
	}
	l.Close()
	if nc, err := net.Dial("tcp", addr); err == nil {
		nc.Close()
		t.Error("it listens when its loop has ended")
	}
}
