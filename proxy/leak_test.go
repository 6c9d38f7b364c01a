package proxy

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http/httptest"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// Drain leaves no goroutine, whatever the clients do, and however they are
// connected. (That the portable loops leave none shows each test in fake time: a
// bubble does not end before its goroutines.)
func TestDrainLeavesNoGoroutine(t *testing.T) {
	before := goleak.IgnoreCurrent()
	defer func() { // the last ones may be about to end, on a busy machine
		left := goleak.Find(before)
		for hung := time.Now().Add(2 * time.Minute); left != nil && time.Now().Before(hung); {
			left = goleak.Find(before)
		}
		if left != nil {
			t.Error(left)
		}
	}()
	withCert := httptest.NewTLSServer(nil)
	certs := withCert.TLS.Certificates
	withCert.Close()
	u := newLoopback(t)
	defer u.ln.Close()
	secure := func() *tls.Config { return &tls.Config{Certificates: certs} }
	for name, config := range map[string]func() *tls.Config{"plain": nil, "TLS": secure} {
		t.Run(name, func(t *testing.T) {
			s, err := New(t.Context(), Options{Upstream: u, Loops: 2, TLS: config})
			if err != nil {
				t.Fatal(err)
			}
			addr := serveClients(t, s)
			connect := func() net.Conn {
				nc, err := net.Dial("tcp", addr.String())
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { nc.Close() })
				if config != nil {
					// the certificate is of example.com
					nc = tls.Client(nc, &tls.Config{InsecureSkipVerify: true})
				}
				return nc
			}
			ask := func(nc net.Conn) {
				if _, err := io.WriteString(nc, oneGet); err != nil {
					t.Fatal(err)
				}
				if _, err := io.ReadFull(nc, make([]byte, len(oneValue))); err != nil {
					t.Fatal(err)
				}
			}
			idle, gone, deaf, half := connect(), connect(), connect(), connect()
			for _, nc := range []net.Conn{idle, gone, deaf, half} {
				ask(nc)
			}
			gone.Close()
			io.WriteString(half, "*2\r\n$3\r\nGET")
			go func() { // ends when Drain closes the connection
				for {
					if _, err := io.WriteString(deaf, oneGet); err != nil {
						return
					}
				}
			}()
			time.Sleep(100 * time.Millisecond)
			ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond) //house:brief one is deaf
			defer cancel()
			if err := s.Drain(ctx); err != nil && !errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
			if n := s.Clients(); n != 0 {
				t.Errorf("%d clients are left", n)
			}
		})
	}
}
