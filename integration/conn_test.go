package integration

import (
	"bufio"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"
)

// patience is how long a reply may take that is due at once.
const patience = 15 * time.Second

// conn is one connection of a client that speaks plain RESP.
type conn struct {
	net.Conn
	r *bufio.Reader
}

// dial connects to a host:port, or to the path of a unix socket.
func dial(addr string) (*conn, error) {
	network := "tcp"
	if strings.HasPrefix(addr, "/") {
		network = "unix"
	}
	c, err := net.DialTimeout(network, addr, patience)
	if err != nil {
		return nil, err
	}
	return &conn{c, bufio.NewReader(c)}, nil
}

// connect is dial for a test; the connection is closed when the test ends.
func connect(l life, addr string) *conn {
	l.Helper()
	c, err := dial(addr)
	if err != nil {
		l.Fatalf("%v", err)
	}
	l.Cleanup(func() { c.Close() })
	return c
}

// do sends one command and returns its reply; err is of the connection.
func (c *conn) do(args ...string) (reply, error) {
	if err := c.send(args...); err != nil {
		return reply{}, err
	}
	return c.receive(patience)
}

func (c *conn) send(args ...string) error {
	_, err := c.Write(encode(args...))
	return err
}

// receive reads the next reply, waiting for it no longer than d.
func (c *conn) receive(d time.Duration) (reply, error) {
	c.SetReadDeadline(time.Now().Add(d))
	return readReply(c.r)
}

// silent says whether no byte comes within d.
func (c *conn) silent(d time.Duration) bool {
	c.SetReadDeadline(time.Now().Add(d))
	_, err := c.r.Peek(1)
	return err != nil && isTimeout(err)
}

// closed says whether the other side closes within d, whatever it still says.
func (c *conn) closed(d time.Duration) bool {
	c.SetReadDeadline(time.Now().Add(d))
	for {
		if _, err := c.r.ReadByte(); err != nil {
			return !isTimeout(err)
		}
	}
}

func isTimeout(err error) bool {
	e, ok := err.(net.Error)
	return ok && e.Timeout()
}

// must runs a command for the test itself: a failed connection and an error
// reply end the test.
func (c *conn) must(l life, args ...string) reply {
	l.Helper()
	v := c.call(l, args...)
	if v.isError() {
		l.Fatalf("%s: %s", strings.Join(args, " "), v)
	}
	return v
}

// call is do for a test: a failed connection ends it.
func (c *conn) call(l life, args ...string) reply {
	l.Helper()
	v, err := c.do(args...)
	if err != nil {
		l.Fatalf("%s: %v", strings.Join(args, " "), err)
	}
	return v
}

// want runs a command and compares its reply with a readable one.
func (c *conn) want(t testing.TB, want string, args ...string) {
	t.Helper()
	if got := c.call(t, args...).String(); got != want {
		t.Errorf("%s: got %s, want %s", strings.Join(args, " "), got, want)
	}
}

// ask runs one command on a connection of its own.
func ask(addr string, args ...string) (reply, error) {
	c, err := dial(addr)
	if err != nil {
		return reply{}, err
	}
	defer c.Close()
	v, err := c.do(args...)
	if err == nil && v.isError() {
		err = fmt.Errorf("%s: %s", strings.Join(args, " "), v.text)
	}
	return v, err
}
