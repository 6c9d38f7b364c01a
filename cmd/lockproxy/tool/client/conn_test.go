package client

import (
	"bufio"
	"context"
	"errors"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"lockproxy/cmd/lockproxy/tool"
)

// peer is a server that answers with what answer makes of a command's words; "" is no answer.
func peer(t *testing.T, network, addr string, answer func(words string) string) string {
	t.Helper()
	ln, err := net.Listen(network, addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	go func() { // ends with ln
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			go serve(conn, answer) // ends when the client closes
		}
	}()
	return ln.Addr().String()
}

func serve(conn net.Conn, answer func(words string) string) {
	defer conn.Close()
	lines := bufio.NewScanner(conn)
	for lines.Scan() {
		var words []string
		for n := int(lines.Text()[1] - '0'); n > 0 && lines.Scan() && lines.Scan(); n-- {
			words = append(words, lines.Text())
		}
		conn.Write([]byte(answer(strings.ToUpper(strings.Join(words, " ")))))
	}
}

func pong(words string) string {
	if words == "PING" {
		return "+PONG\r\n"
	}
	return ""
}

func TestConn(t *testing.T) {
	sock := filepath.Join(t.TempDir(), "s")
	for network, addr := range map[string]string{"tcp": "127.0.0.1:0", "unix": sock} {
		o := &Options{Addr: peer(t, network, addr, pong), Timeout: 2 * time.Minute}
		c, err := o.Connect(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		// An answer that does not come is waited for until the context ends, also by a cancel.
		ctx, cancel := context.WithCancel(context.Background())
		time.AfterFunc(10*time.Millisecond, cancel)
		if v, err := c.Do(ctx, "LOCK", "job"); err == nil || Code(err) != tool.ExitUnavailable {
			t.Errorf("%s: %v %v", network, v, err)
		}
		if v, err := c.Do(context.Background(), "PING"); err == nil {
			t.Errorf("%s: a broken connection answers %v", network, v)
		}
		c.Close()
	}
}

func TestCode(t *testing.T) {
	for answer, want := range map[string]int{
		"-NOAUTH Authentication required.":       tool.ExitDenied,
		"-WRONGPASS invalid":                     tool.ExitDenied,
		"-LOADING lockproxy has not found":       tool.ExitTemporary,
		"-TRYAGAIN later":                        tool.ExitTemporary,
		"-ERR unknown command 'PING', with args": tool.ExitProtocol,
		"-ERR syntax":                            tool.ExitSoftware,
		"HTTP/1.1 400 Bad Request":               tool.ExitProtocol,
		"$9223372036854775807":                   tool.ExitProtocol,
		"$1125899906842624":                      tool.ExitProtocol,
		"*2147483647":                            tool.ExitProtocol,
		"%9223372036854775807":                   tool.ExitProtocol,
		strings.Repeat("*1\r\n", 100):            tool.ExitProtocol,
	} {
		o := &Options{Addr: peer(t, "tcp", "127.0.0.1:0", func(string) string { return answer + "\r\n" }),
			Timeout: 2 * time.Minute}
		_, err := o.Connect(context.Background())
		if err == nil || Code(err) != want {
			t.Errorf("%s: %v is code %d, not %d", answer, err, Code(err), want)
		}
	}
	nobody := &Options{Addr: "127.0.0.1:1", Timeout: 2 * time.Minute}
	if _, err := nobody.Connect(context.Background()); err == nil || Code(err) != tool.ExitUnavailable {
		t.Errorf("%v", err)
	}
	silent := &Options{Addr: peer(t, "tcp", "127.0.0.1:0", func(string) string { return "" }),
		Timeout: 20 * time.Millisecond}
	if _, err := silent.Connect(context.Background()); err == nil || Code(err) != tool.ExitUnavailable {
		t.Errorf("%v", err)
	}
	noTLS := &Options{Addr: peer(t, "tcp", "127.0.0.1:0", func(string) string { return "-ERR\r\n" }),
		TLS: true, Timeout: 50 * time.Millisecond}
	if _, err := noTLS.Connect(context.Background()); err == nil {
		t.Error("a server without TLS is taken for one")
	}
	if code := Code(ErrorReply("NOPERM this user")); code != tool.ExitDenied {
		t.Errorf("a right that is missing is code %d", code)
	}
	// Who may not PING may well use locks.
	refused := &Options{Addr: peer(t, "tcp", "127.0.0.1:0", func(string) string { return "-NOPERM no\r\n" }),
		Timeout: 2 * time.Minute}
	if c, err := refused.Connect(context.Background()); err != nil {
		t.Error(err)
	} else {
		c.Close()
	}
	if _, ok := Reply(errors.New("x")); ok {
		t.Error("an error of this side is taken for an answer")
	}
}

func TestCheck(t *testing.T) {
	for wrong, o := range map[string]Options{
		"host:port":            {Addr: "localhost"},
		"need each other":      {Addr: Addr, Cert: "x"},
		"--cacert: open":       {Addr: Addr, TLS: true, CA: "no/such"},
		"there is no certific": {Addr: Addr, TLS: true, CA: "conn_test.go"},
		"--cert, --key":        {Addr: Addr, TLS: true, Cert: "conn_test.go", Key: "conn_test.go"},
	} {
		if err := o.Check(); err == nil || !strings.Contains(err.Error(), wrong) {
			t.Errorf("%+v: %v, not %s", o, err, wrong)
		}
	}
	if err := (&Options{Addr: "/run/lockproxy.sock"}).Check(); err != nil {
		t.Error(err)
	}
}
