package rig

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
	"time"
)

// Patience is how long a test waits for what must come: so long that only a hung program needs longer, on
// whatever machine. No test judges how fast anything is by it.
const Patience = 5 * time.Minute

// Conn is one connection of a client that speaks plain RESP.
type Conn struct {
	net.Conn
	Reader *bufio.Reader
}

// NewConn is a client over a connection that was made by other means.
func NewConn(nc net.Conn) *Conn { return &Conn{nc, bufio.NewReader(nc)} }

// Dial connects to a host:port, or to the path of a unix socket.
func Dial(addr string) (*Conn, error) {
	network := "tcp"
	if strings.HasPrefix(addr, "/") {
		network = "unix"
	}
	c, err := net.DialTimeout(network, addr, Patience)
	if err != nil {
		return nil, err
	}
	return NewConn(c), nil
}

// Connect is Dial for a test; the connection is closed when the test ends.
func Connect(l Life, addr string) *Conn {
	l.Helper()
	c, err := Dial(addr)
	if err != nil {
		l.Fatalf("%v", err)
	}
	l.Cleanup(func() { c.Close() })
	return c
}

// Do sends one command and returns its reply; err is of the connection.
func (c *Conn) Do(args ...string) (Reply, error) {
	if err := c.Send(args...); err != nil {
		return Reply{}, err
	}
	return c.Receive(Patience)
}

// Send sends one command.
func (c *Conn) Send(args ...string) error {
	_, err := c.Write(Encode(args...))
	return err
}

// Receive reads the next reply, waiting for it no longer than d.
func (c *Conn) Receive(d time.Duration) (Reply, error) {
	c.SetReadDeadline(time.Now().Add(d))
	return ReadReply(c.Reader)
}

// Silent says whether no byte comes within d.
func (c *Conn) Silent(d time.Duration) bool {
	c.SetReadDeadline(time.Now().Add(d))
	_, err := c.Reader.Peek(1)
	return err != nil && IsTimeout(err)
}

// Closed says whether the other side closes within d, whatever it still says.
func (c *Conn) Closed(d time.Duration) bool {
	c.SetReadDeadline(time.Now().Add(d))
	for {
		if _, err := c.Reader.ReadByte(); err != nil {
			return !IsTimeout(err)
		}
	}
}

// IsTimeout says that err is of a deadline.
func IsTimeout(err error) bool { return errors.Is(err, os.ErrDeadlineExceeded) }

// Must runs a command for the test itself: a failed connection and an error
// reply end the test.
func (c *Conn) Must(l Life, args ...string) Reply {
	l.Helper()
	v := c.Call(l, args...)
	if v.IsError() {
		l.Fatalf("%s: %s", strings.Join(args, " "), v)
	}
	return v
}

// Call is do for a test: a failed connection ends it.
func (c *Conn) Call(l Life, args ...string) Reply {
	l.Helper()
	v, err := c.Do(args...)
	if err != nil {
		l.Fatalf("%s: %v", strings.Join(args, " "), err)
	}
	return v
}

// Want runs a command and compares its reply with a readable one.
func (c *Conn) Want(t testing.TB, want string, args ...string) {
	t.Helper()
	if got := c.Call(t, args...).String(); got != want {
		t.Errorf("%s: got %s, want %s", strings.Join(args, " "), got, want)
	}
}

// Ask runs one command on a connection of its own.
func Ask(addr string, args ...string) (Reply, error) {
	c, err := Dial(addr)
	if err != nil {
		return Reply{}, err
	}
	defer c.Close()
	v, err := c.Do(args...)
	if err == nil && v.IsError() {
		err = fmt.Errorf("%s: %s", strings.Join(args, " "), v.Text)
	}
	return v, err
}
