package door

import (
	"errors"
	"log/slog"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// heir is a Successor that keeps what it gets.
type heir struct{ came chan string }

func (*heir) Serve(net.Listener) error        { return nil }
func (h *heir) Admit(_ net.Conn, came []byte) { h.came <- string(came) }
func (*heir) Earlier(uint64, uint64)          {}

// A command that comes while a proxy that starts looks for its upstream the first time waits for it. R23
func TestFirstLookIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var why error
		l := NewEarly(EarlyOptions{MaxClients: 9, Why: func() error { return why },
			Secret: func() bool { return false }, Log: slog.New(slog.DiscardHandler)})
		client := func() net.Conn {
			near, far := net.Pipe()
			l.door.Admit(far, nil)
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
		h := &heir{make(chan string, 1)}
		if _, err := l.Open(h); err != nil {
			t.Fatal(err)
		}
		if came := <-h.came; came != "PING\r\n" {
			t.Errorf("handed over with %q", came)
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
