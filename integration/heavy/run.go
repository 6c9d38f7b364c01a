package heavy

import (
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"lockproxy/integration/rig"
	"lockproxy/internal/resp"
)

// Result is what one command did.
type Result struct {
	Sent, Got int           // bytes
	Took      time.Duration // until the last reply
	Waited    time.Duration // the longest that the other client waited for the reply to PING
	First     string        // the beginning of the first reply
}

// Run sends c, made for size n, over a connection of its own to addr, and PINGs over another one until it
// is answered. limit bounds all of it.
func Run(addr string, c Command, n int, limit time.Duration) (r Result, err error) {
	conn, err := rig.Dial(addr)
	if err != nil {
		return r, err
	}
	defer conn.Close()
	for _, text := range c.Before {
		if _, err := conn.Do(strings.Fields(text)...); err != nil {
			return r, fmt.Errorf("%s: %w", text, err)
		}
	}
	request := c.Request(n)
	other, err := rig.Dial(addr)
	if err != nil {
		return r, err
	}
	for _, nc := range []net.Conn{conn, other} {
		nc.SetDeadline(time.Now().Add(limit))
	}
	stop, waited := make(chan struct{}), make(chan time.Duration)
	go func() { waited <- ping(other, stop) }() // ends when it is told to, or by its deadline
	began := time.Now()
	go conn.Write(request) // ends when all of it is taken, or with the connection
	want := 1
	if c.Replies != nil {
		want = c.Replies(n)
	}
	r, err = replies(conn, want)
	r.Sent, r.Took = len(request), time.Since(began)
	time.Sleep(20 * time.Millisecond) // what is freed behind the last reply counts
	close(stop)
	if r.Waited = <-waited; r.Waited < 0 && err == nil {
		err = fmt.Errorf("%s: the other client was not answered", c.Name)
	}
	return r, err
}

// replies reads n replies.
func replies(in io.Reader, n int) (r Result, err error) {
	var f resp.Framer
	buf, kept := make([]byte, 1<<20), 0 // what is kept is half a line
	for n > 0 {
		m, err := in.Read(buf[kept:])
		if err != nil {
			return r, err
		}
		rest := buf[:kept+m]
		for done := true; n > 0 && done; {
			var used int
			if used, done, err = f.Next(rest); err != nil {
				return r, err
			}
			if r.Got == 0 {
				r.First = string(rest[:min(used, 60)])
			}
			if r.Got += used; done {
				n--
			}
			rest = rest[used:]
		}
		kept = copy(buf, rest)
	}
	return r, nil
}

// ping sends PING again and again, and returns the longest that a reply took; -1 if one did not come.
func ping(conn net.Conn, stop chan struct{}) (longest time.Duration) {
	defer conn.Close()
	var buf [64]byte
	for {
		began := time.Now()
		if _, err := conn.Write([]byte("PING\r\n")); err != nil {
			return -1
		}
		if n, err := conn.Read(buf[:]); err != nil || string(buf[:n]) != "+PONG\r\n" {
			return -1
		}
		longest = max(longest, time.Since(began))
		select {
		case <-stop:
			return longest
		case <-time.After(100 * time.Microsecond):
		}
	}
}
