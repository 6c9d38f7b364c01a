package lifecycle

import (
	"context"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"lockproxy/cmd/lockproxy/settings"
)

// turning is a Plane whose loops turn, unless they hang.
type turning struct {
	Plane
	hangs atomic.Bool
}

func (t *turning) Turns(ctx context.Context) error {
	if t.hangs.Load() {
		<-ctx.Done()
	}
	return ctx.Err()
}

// The watchdog is fed in time while the event loops turn, and not while they hang.
func TestWatchdog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, pl, s := NewManager(slog.New(slog.DiscardHandler)), new(turning), new(State)
		s.Serve(pl)
		var fed atomic.Int64
		life, end := context.WithCancel(t.Context())
		defer end()
		go m.feedWatchdog(life, 8*time.Second, s, func(string) { fed.Add(1) })
		count := func() int64 {
			fed.Store(0)
			time.Sleep(80 * time.Second)
			return fed.Load()
		}
		if n := count(); n < 20 {
			t.Errorf("fed %d times in ten intervals", n)
		}
		pl.hangs.Store(true)
		time.Sleep(8 * time.Second)
		if n := count(); n > 0 {
			t.Errorf("fed %d times while the loops hang", n)
		}
		pl.hangs.Store(false)
		time.Sleep(8 * time.Second)
		if n := count(); n < 20 {
			t.Errorf("fed %d times once they turn again", n)
		}
	})
}

// Each socket of the service manager has an address that a setting names, and is the only one of that.
func TestSocketsThatAreRefused(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	socket := func() *os.File {
		file, err := ln.(*net.TCPListener).File()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { file.Close() })
		return file
	}
	refused := func(v *settings.Values, want string, all ...*os.File) {
		t.Helper()
		if err := new(Ports).takeSockets(v, all); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	v := settings.Defaults()
	refused(v, "listen or admin has to name that address", socket())
	v.Listen = []string{ln.Addr().String()}
	refused(v, "two sockets for listen "+v.Listen[0], socket(), socket())
	if err := new(Ports).takeSockets(v, []*os.File{socket()}); err != nil {
		t.Error(err)
	}
}

// A service manager that reads none of its messages does not keep the program from its end.
func TestManagerReadsNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notify")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	full, err := net.Dial("unixgram", path)
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	for err == nil { // until the kernel takes no more
		full.SetWriteDeadline(time.Now().Add(10 * time.Millisecond))
		_, err = io.WriteString(full, "WATCHDOG=1")
	}
	t.Setenv("NOTIFY_SOCKET", path)
	NewManager(slog.New(slog.DiscardHandler)).Stopping() // or the test hangs
}

// A socket of the service manager is for the setting that names its address.
func TestIsAt(t *testing.T) {
	tcp := func(ip string, port int) net.Addr { return &net.TCPAddr{IP: net.ParseIP(ip), Port: port} }
	for _, c := range []struct {
		bound net.Addr
		addr  string
		want  bool
	}{
		{tcp("127.0.0.1", 1), "127.0.0.1:1", true},
		{tcp("127.0.0.1", 1), "127.0.0.1:2", false},
		{tcp("127.0.0.1", 1), "0.0.0.0:1", false},
		{tcp("::", 1), ":1", true},
		{tcp("::", 1), "0.0.0.0:1", true},
		{tcp("::", 1), "127.0.0.1:1", false},
		{&net.UnixAddr{Name: "/a", Net: "unix"}, "/a", true},
		{&net.UnixAddr{Name: "/a", Net: "unix"}, "127.0.0.1:1", false},
	} {
		if got := isAt(c.bound, c.addr); got != c.want {
			t.Errorf("%v for %s: %v", c.bound, c.addr, got)
		}
	}
}
