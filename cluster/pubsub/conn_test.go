package pubsub

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"lockproxy/cluster"
)

// frames keeps what comes over a feedConn.
type frames struct {
	mu     sync.Mutex
	all    []string
	pauses int
	refuse error // of each frame
}

func (f *frames) takeFrame(frame []byte) error {
	f.all = append(f.all, string(frame))
	return f.refuse
}

func (f *frames) pauseReading(context.Context) { f.pauses++ }

// connected is a feedConn of f to a node. serve plays the node behind the login.
func connected(t *testing.T, f *frames, queued string, serve func(net.Conn)) *feedConn {
	dial := func(context.Context, string, string) (net.Conn, error) {
		here, there := net.Pipe()
		go func() { // ends with its connection
			buf := make([]byte, 4096)
			if n, _ := there.Read(buf); !strings.Contains(string(buf[:n]), "SETNAME") {
				t.Errorf("the login is %q", buf[:n])
			}
			there.Write([]byte("+OK\r\n"))
			serve(there)
		}()
		return here, nil
	}
	u := &cluster.Dialer{ConnectTimeout: time.Second, Net: dial}
	c := newFeedConn(f, &f.mu)
	f.mu.Lock()
	c.queueRequest([]byte(queued))
	f.mu.Unlock()
	if err := c.beginConn(t.Context(), u, "a:1", 2); err != nil {
		t.Fatal(err)
	}
	return c
}

// Frames come whole and in order, however they are cut and however long they are; what was queued before the
// connection was there is written.
func TestNodeConnFrames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		long := "$300000\r\n" + strings.Repeat("x", 300000) + "\r\n"
		want := []string{"+OK\r\n", "*2\r\n$1\r\na\r\n:12\r\n", long, ":1\r\n", ":2\r\n"}
		var f frames
		c := connected(t, &f, "*1\r\n$4\r\nPING\r\n", func(there net.Conn) {
			buf := make([]byte, 14)
			if n, err := there.Read(buf); string(buf[:n]) != "*1\r\n$4\r\nPING\r\n" {
				t.Errorf("%q, %v", buf[:n], err)
			}
			for _, b := range []byte(want[0] + want[1]) { // byte by byte
				there.Write([]byte{b})
			}
			there.Write([]byte(want[2] + want[3] + want[4]))
			there.Close()
		})
		<-c.ctx.Done()
		c.endConn(nil)
		if got := strings.Join(f.all, "|"); got != strings.Join(want, "|") {
			t.Errorf("%d frames of %d bytes", len(f.all), len(got))
		}
		if f.pauses < len(want[0])+len(want[1]) {
			t.Errorf("%d pauses", f.pauses)
		}
	})
}

// A feedConn ends for one reason, the first: an error of the node or of its user, or End. A node that accepts
// nothing is given up.
func TestNodeConnEnds(t *testing.T) {
	mine, refused := errors.New("mine"), errors.New("refused")
	tests := map[string]struct {
		f     *frames
		serve func(net.Conn)
		late  bool
		want  func(error) bool
	}{
		"closed by the node": {serve: func(c net.Conn) { c.Close() }, late: true,
			want: func(err error) bool { return err != nil && err != mine }},
		"no Redis": {serve: func(c net.Conn) { c.Write([]byte("HTTP/1.1\r\n")) }, late: true,
			want: func(err error) bool { return errors.Is(err, cluster.ErrFraming) }},
		"refused by its user": {f: &frames{refuse: refused},
			serve: func(c net.Conn) { c.Write([]byte("+OK\r\n")) },
			late:  true, want: func(err error) bool { return err == refused }},
		"takes nothing": {serve: func(net.Conn) {}, late: true,
			want: func(err error) bool { return err != nil && strings.HasPrefix(err.Error(), "write: ") }},
		"ended": {serve: func(net.Conn) {}, want: func(err error) bool { return err == mine }},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if test.f == nil {
					test.f = new(frames)
				}
				c := connected(t, test.f, "*1\r\n$4\r\nPING\r\n", test.serve)
				began := time.Now()
				if test.late {
					<-c.ctx.Done()
				}
				if err := c.endConn(mine); !test.want(err) {
					t.Errorf("it ended for %v", err)
				}
				if took := time.Since(began); took > nodeWrite {
					t.Errorf("after %v", took)
				}
				if _, err := c.conn.Write([]byte("x")); err == nil {
					t.Error("the connection is open")
				}
			})
		})
	}
}
