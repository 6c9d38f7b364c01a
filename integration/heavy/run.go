package heavy

import (
	"bufio"
	"fmt"
	"net"
	"strings"
	"time"

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
	conn, err := dial(addr, limit)
	if err != nil {
		return r, err
	}
	defer conn.Close()
	in := bufio.NewReaderSize(conn, 1<<20)
	for _, text := range c.Before {
		if _, err := conn.Write(resp.AppendCommandStrings(nil, strings.Fields(text)...)); err != nil {
			return r, err
		}
		if _, err := replies(in, 1); err != nil {
			return r, fmt.Errorf("%s: %w", text, err)
		}
	}
	request := c.Request(n)
	other, err := dial(addr, limit)
	if err != nil {
		return r, err
	}
	stop, waited := make(chan struct{}), make(chan time.Duration)
	go func() { waited <- ping(other, stop) }() // ends when it is told to, or by its deadline
	began := time.Now()
	go conn.Write(request) // ends when all of it is taken, or with the connection
	want := 1
	if c.Replies != nil {
		want = c.Replies(n)
	}
	r, err = replies(in, want)
	r.Sent, r.Took = len(request), time.Since(began)
	time.Sleep(20 * time.Millisecond) // what is freed behind the last reply counts
	close(stop)
	if r.Waited = <-waited; r.Waited < 0 && err == nil {
		err = fmt.Errorf("%s: the other client was not answered", c.Name)
	}
	return r, err
}

func dial(addr string, limit time.Duration) (net.Conn, error) {
	conn, err := net.Dial("tcp", addr)
	if err == nil {
		err = conn.SetDeadline(time.Now().Add(limit))
	}
	return conn, err
}

// replies reads n replies.
func replies(in *bufio.Reader, n int) (r Result, err error) {
	var f resp.Framer
	for n > 0 {
		if _, err := in.Peek(in.Buffered() + 1 - min(in.Buffered(), 1)); err != nil {
			return r, err
		}
		buf, _ := in.Peek(in.Buffered())
		for n > 0 && len(buf) > 0 {
			used, done, err := f.Next(buf)
			if err != nil {
				return r, err
			}
			if used == 0 && !done { // half a line
				if _, err := in.Peek(len(buf) + 1); err != nil {
					return r, err
				}
				break
			}
			if r.Got == 0 {
				r.First = string(buf[:min(used, 60)])
			}
			r.Got += used
			in.Discard(used)
			if buf = buf[used:]; done {
				n--
			}
		}
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
