package resp

import (
	"errors"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"
)

// few are bounds that are easy to reach.
var few = Bounds{Bytes: 100, Values: 6, Depth: 3}

func TestBounds(t *testing.T) {
	for reply, within := range map[string]bool{
		"$93\r\n" + strings.Repeat("x", 93) + "\r\n": true,
		"$94\r\n":                  false, // before any of it comes
		"$9223372036854775807\r\n": false,
		"$1125899906842624\r\n":    false,
		"!2147483647\r\n":          false,
		"*2\r\n$40\r\n" + strings.Repeat("x", 40) + "\r\n$43":     true,
		"*2\r\n$40\r\n" + strings.Repeat("x", 40) + "\r\n$44\r\n": false,
		"*6\r\n" + strings.Repeat(":1\r\n", 6):                    true,
		"*7\r\n":                                                  false,
		"%3\r\n" + strings.Repeat(":1\r\n", 6):                    true,
		"%4\r\n":                                                  false,
		"%9223372036854775807\r\n":                                false,
		"~999999999999999999\r\n":                                 false,
		"|3\r\n":                                                  false, // with the reply behind it
		"*2\r\n*2\r\n:1\r\n:1\r\n*2\r\n:1\r\n:1\r\n":              true,
		"*2\r\n*2\r\n:1\r\n:1\r\n*3\r\n":                          false, // all together
		"*1\r\n*1\r\n*1\r\n:1\r\n":                                true,
		"*1\r\n*1\r\n*1\r\n*1\r\n":                                false,
		"*3\r\n*1\r\n*0\r\n*1\r\n*0\r\n*0\r\n":                    true, // one beside the other
		"*2\r\n*0\r\n*1\r\n*1\r\n*1\r\n":                          false,
		"*1\r\n|0\r\n*0\r\n":                                      true,
		"*1\r\n|0\r\n*1\r\n*0\r\n":                                false,
	} {
		for _, size := range []int{1, 5, 1000} {
			f := few.Framer()
			for range 2 { // it starts anew with each reply
				var err error
				var kept []byte
				for _, piece := range cutEvery(size, []byte(reply)) {
					var n int
					kept = append(kept, piece...)
					if n, _, err = f.Next(kept); err != nil {
						break
					}
					kept = kept[n:]
				}
				refused := errors.Is(err, ErrBounds) || errors.Is(err, ErrReply)
				if within != (err == nil) || !within && !refused {
					t.Errorf("%q in pieces of %d: %v", reply, size, err)
				}
				f.Reset()
			}
		}
	}
}

// A line is counted while it comes.
func TestBoundsOfALine(t *testing.T) {
	f := Bounds{Bytes: 3 * lineLimit}.Framer()
	var err error
	for n := 0; err == nil; n++ {
		if _, _, err = f.Next([]byte("+" + strings.Repeat("x", lineLimit))); n > 3 {
			t.Fatal("an endless line is taken")
		}
	}
}

// Whoever reads from it gets all replies within bounds as they came, and nothing of any other.
func TestConn(t *testing.T) {
	good := "+OK\r\n*2\r\n$3\r\nabc\r\n:1\r\n$-1\r\n"
	for _, bad := range []string{
		"$9223372036854775807\r\n", "*1\r\n*1\r\n*1\r\n*1\r\n", "%4\r\n", "HTTP/1.1 200\r\n",
	} {
		for _, size := range []int{1, 3, 1000} {
			near, far := net.Pipe()
			go func() { // ends with near
				for _, piece := range cutEvery(size, []byte(good)) {
					far.Write(piece)
				}
				for _, piece := range cutEvery(size, []byte(bad)) {
					far.Write(piece)
				}
				far.Close()
			}()
			conn := few.Conn(near)
			got := make([]byte, len(good))
			if _, err := io.ReadFull(conn, got); err != nil || string(got) != good {
				t.Fatalf("%q, %v", got, err)
			}
			rest, err := io.ReadAll(conn)
			if err == nil || len(rest) >= len(bad) {
				t.Errorf("%q in pieces of %d: %q, %v", bad, size, rest, err)
			}
			if n, again := conn.Read(got); n != 0 || again != err {
				t.Errorf("after its error it reads on: %d, %v", n, again)
			}
			near.Close()
		}
	}
}

// A library can look whether the connection was closed, if it could before.
func TestConnIsASocket(t *testing.T) {
	near, far := net.Pipe()
	defer near.Close()
	defer far.Close()
	if _, ok := few.Conn(near).(syscall.Conn); ok {
		t.Error("a pipe is no socket")
	}
	if _, ok := few.Conn(&net.TCPConn{}).(syscall.Conn); !ok {
		t.Error("a socket is one no longer")
	}
}
