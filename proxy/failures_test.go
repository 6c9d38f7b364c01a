package proxy

import (
	"crypto/tls"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"lockproxy/proxy/login"
)

// arrivals is a listener whose connections are sent to it.
type arrivals chan net.Conn

func (a arrivals) Accept() (net.Conn, error) {
	if nc, ok := <-a; ok {
		return nc, nil
	}
	return nil, net.ErrClosed
}

func (a arrivals) Close() error   { close(a); return nil }
func (a arrivals) Addr() net.Addr { return &net.TCPAddr{} }

// TestFailedHandshakes proves that any number of failed TLS handshakes makes a line or two, that all are
// counted, and that one which does not go on is ended.
func TestFailedHandshakes(t *testing.T) {
	var out textLog
	o := Options{
		TLS: func() *tls.Config { return &tls.Config{} },
		Log: slog.New(slog.NewTextHandler(&out, nil)),
	}
	inBubble(t, 1, o, nil, func(r *rig) {
		ln := make(arrivals)
		if err := r.server.Serve(ln); err != nil {
			t.Fatal(err)
		}
		for range 200 {
			near, far := net.Pipe()
			ln <- far // its handshake ends at the first bytes
			go io.WriteString(near, "GET / HTTP/1.1\r\n\r\n")
			io.Copy(io.Discard, near)
		}
		synctest.Wait()
		lines := func() int { return strings.Count(out.String(), "level=WARN") }
		if lines() != 1 || !strings.Contains(out.String(), "TLS handshake failed") {
			t.Errorf("log of 200 failures:\n%s", &out)
		}
		if n := r.server.Stats().AuthFailures["tls"]; n != 200 {
			t.Errorf("%d counted", n)
		}
		time.Sleep(login.LogEvery + time.Second)
		synctest.Wait()
		if lines() != 2 || !strings.Contains(out.String(), "kind=tls count=199") {
			t.Errorf("log when it is over:\n%s", &out)
		}
		near, far := net.Pipe()
		began := time.Now()
		ln <- far
		io.Copy(io.Discard, near)
		if took := time.Since(began); took != 10*time.Second { // of fake time
			t.Errorf("a silent client is closed after %v", took)
		}
	})
}
