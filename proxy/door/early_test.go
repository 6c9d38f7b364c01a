package door

import (
	"errors"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// heir is a Successor that keeps what it gets.
type heir struct{ clients chan net.Conn }

func (*heir) Serve(net.Listener) error { return nil }
func (h *heir) Admit(nc net.Conn)      { h.clients <- nc }
func (*heir) Earlier(uint64, uint64)   {}

// A command that comes while a proxy that starts looks for its upstream the first time waits for it. R23
func TestFirstLookIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var why error
		l := NewEarly(EarlyOptions{MaxClients: 9, Why: func() error { return why },
			Secret: func() bool { return false }, Log: slog.New(slog.DiscardHandler)})
		client := func() net.Conn {
			near, far := net.Pipe()
			l.door.Admit(far)
			near.Write([]byte("PING\r\n"))
			return near
		}
		answered := func(nc net.Conn, within time.Duration, want string) {
			t.Helper()
			nc.SetReadDeadline(time.Now().Add(within))
			buf := make([]byte, 99)
			if n, _ := nc.Read(buf); !strings.HasPrefix(string(buf[:n]), want) || n > 0 && want == "" {
				t.Errorf("answered %q, want %q", buf[:n], want)
			}
		}
		first := client()
		answered(first, grace/2, "")
		h := &heir{make(chan net.Conn, 1)}
		if _, err := l.Open(h); err != nil {
			t.Fatal(err)
		}
		buf := make([]byte, 6)
		if _, err := io.ReadFull(<-h.clients, buf); err != nil || string(buf) != "PING\r\n" {
			t.Errorf("handed over: %q %v", buf, err)
		}

		l = NewEarly(l.o)
		answered(client(), 2*grace, "-LOADING lockproxy has not found its upstream yet\r\n")
		l.Close()
		l = NewEarly(l.o)
		why = errors.New("nobody is there")
		answered(client(), time.Millisecond,
			"-LOADING lockproxy has not found its upstream yet: nobody is there")
		l.Close()
	})
}
