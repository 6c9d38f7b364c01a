package discovery

import (
	"bytes"
	"errors"
	"io"
	"net"
	"syscall"
)

// lastWords is a connection that fails with what the node said when that was an error and nothing else: a
// node that has no place for a client, or is in protected mode, says so without being asked, and closes.
// go-redis takes that for the answer to its HELLO, goes on without, and sees only the end.
type lastWords struct {
	net.Conn
	raw  syscall.Conn // the same, by which go-redis looks whether it was closed
	said []byte       // all that was read, as far as that may be an error alone
	more bool         // it was not
}

// mostWords is how long an error may be. That of the protected mode has a kilobyte.
const mostWords = 2 << 10

// heeding is conn, as lastWords. Under TLS a node cannot say why it closes.
func heeding(conn net.Conn) net.Conn {
	if raw, ok := conn.(syscall.Conn); ok {
		return &lastWords{Conn: conn, raw: raw}
	}
	return conn
}

// SyscallConn implements syscall.Conn.
func (w *lastWords) SyscallConn() (syscall.RawConn, error) { return w.raw.SyscallConn() }

// Read implements net.Conn. p is passed on as it came, error or not: only the end of the connection is told
// in another way.
func (w *lastWords) Read(p []byte) (int, error) {
	n, err := w.Conn.Read(p)
	if !w.more {
		w.said = append(w.said, p[:n]...)
		end := bytes.IndexByte(w.said, '\n')
		if w.more = len(w.said) > mostWords || len(w.said) > 0 && w.said[0] != '-' ||
			end >= 0 && end != len(w.said)-1; w.more {
			w.said = nil
		}
	}
	return n, w.explainEnd(err)
}

// Write implements net.Conn.
func (w *lastWords) Write(p []byte) (int, error) {
	n, err := w.Conn.Write(p)
	return n, w.explainEnd(err)
}

// explainEnd is err, with what the node said when err is the end of the connection. errors.Is finds that end
// in it still; people, and RefusesLogin, read the words.
func (w *lastWords) explainEnd(err error) error {
	if said := bytes.TrimSpace(w.said); connEnded(err) && len(said) > 0 {
		return turnedAway{string(said[1:]), err}
	}
	return err
}

// connEnded says that err is the end of a connection. A time-out is none.
func connEnded(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// turnedAway is the end of a connection after an error that the node said.
type turnedAway struct {
	said string
	end  error
}

// Error implements error.
func (t turnedAway) Error() string { return t.said }

// Unwrap is for errors.Is.
func (t turnedAway) Unwrap() error { return t.end }
