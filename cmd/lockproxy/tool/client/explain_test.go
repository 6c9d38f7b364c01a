package client

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"lockproxy/cmd/lockproxy/tool"
)

// Whoever is at the address in place of a lockproxy is told from it, by the first command.
func TestExplain(t *testing.T) {
	one := func(serve func(net.Conn)) net.Listener {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { ln.Close() })
		go func() { // ends with ln, or when the client has gone
			if conn, err := ln.Accept(); err == nil {
				serve(conn)
				conn.Close()
			}
		}()
		return ln
	}
	secure := one(func(conn net.Conn) {
		tls.Server(conn, &tls.Config{Certificates: make([]tls.Certificate, 1)}).Handshake()
	})
	plain := one(func(conn net.Conn) {
		conn.Write([]byte("-ERR Protocol error\r\n"))
		io.Copy(io.Discard, conn)
	})
	says := func(answer string) string {
		return peer(t, "tcp", "127.0.0.1:0", func(string) string { return answer })
	}
	for _, c := range []struct {
		addr string
		tls  bool
		code int
		want string
	}{
		{secure.Addr().String(), false, tool.ExitUnavailable, ": the connection ends without an answer: " +
			"does it want --tls?"},
		{says("\x15\x03\x03\x00\x02\x02\x46\r\n"), false, tool.ExitProtocol, "does it want --tls?"},
		{says("HTTP/1.1 400 Bad Request\r\n\r\n"), false, tool.ExitProtocol,
			": whoever is there speaks HTTP"},
		{plain.Addr().String(), true, tool.ExitProtocol, "is it there without --tls?"},
		{says("-NOAUTH Authentication required.\r\n"), false, tool.ExitDenied, ": NOAUTH Authentication"},
	} {
		o := &Options{Addr: c.addr, TLS: c.tls, Timeout: 2 * time.Minute}
		_, err := o.Connect(context.Background())
		if err == nil || !strings.Contains(err.Error(), c.want) || Code(err) != c.code ||
			!strings.HasPrefix(err.Error(), c.addr+": ") {
			t.Errorf("%v, code %d, want %s", err, Code(err), c.want)
		}
	}
	if err := (&Options{}).Explain(nil); err != nil {
		t.Error(err)
	}
}

// A server that does not know a command says its words, of which one is the token.
func TestExplainHidesTheToken(t *testing.T) {
	addr := peer(t, "tcp", "127.0.0.1:0", func(words string) string {
		if strings.HasPrefix(words, "LOCK") {
			return "-ERR unknown command 'LOCK', with args beginning with: 'job' 'TOKEN' 'sesame' \r\n"
		}
		return pong(words)
	})
	o := &Options{Addr: addr, Timeout: 2 * time.Minute}
	conn, err := o.Connect(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_, err = conn.Do(context.Background(), "LOCK", "job", "TOKEN", "sesame")
	err = o.Explain(err)
	want := "no lockproxy answers at " + addr + ", but a Redis or Valkey: it does not know LOCK"
	if err == nil || err.Error() != want || Code(err) != tool.ExitProtocol {
		t.Errorf("%v, code %d", err, Code(err))
	}
}

// What can be said of an address before anybody is asked.
func TestCheckRefusesURLs(t *testing.T) {
	for _, addr := range []string{"redis://localhost:6380", "rediss://me:sesame@localhost:1/0", "unix:///s"} {
		err := (&Options{Addr: addr}).Check()
		if err == nil || !strings.Contains(err.Error(), "a URL is neither") ||
			strings.Contains(err.Error(), "sesame") {
			t.Errorf("%s: %v", addr, err)
		}
	}
}
