package proxy

import (
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestFailedHandshakes proves that any number of failed TLS handshakes makes a line or two, that all are counted, and
// that one which does not go on is ended.
func TestFailedHandshakes(t *testing.T) {
	var out textLog
	o := Options{
		TLS: func() *tls.Config { return &tls.Config{} },
		Log: slog.New(slog.NewTextHandler(&out, nil)),
	}
	inBubble(t, 1, o, nil, func(r *rig) {
		for range 200 {
			near, far := net.Pipe()
			go r.server.handshake(far) // ends at the first bytes
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
		time.Sleep(failureLogEvery + time.Second)
		synctest.Wait()
		if lines() != 2 || !strings.Contains(out.String(), "kind=tls count=199") {
			t.Errorf("log when it is over:\n%s", &out)
		}
		near, far := net.Pipe()
		began := time.Now()
		go r.server.handshake(far) // ends within handshakeTimeout
		io.Copy(io.Discard, near)
		if took := time.Since(began); took > handshakeTimeout {
			t.Errorf("a silent client is closed after %v", took)
		}
	})
}

// TestFailureCountGoesWithTheNextLine proves that what was not logged is told by the line that is.
func TestFailureCountGoesWithTheNextLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out textLog
		log, f := slog.New(slog.NewTextHandler(&out, nil)), new(failure)
		for i := range 5 {
			f.note(log, fmt.Sprint("failed", i))
		}
		time.Sleep(failureLogEvery)
		f.note(log, "failed again")
		if got := out.String(); strings.Count(got, "\n") != 2 || !strings.Contains(got, `msg="failed again" not_logged=4`) {
			t.Errorf("log: %s", got)
		}
		if n := f.unlogged(); n != 0 {
			t.Errorf("%d of them once more", n)
		}
	})
}
