package proxy

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"lockproxy/cluster/pipe"
	"lockproxy/redlock"
)

// halves is a connection of two pipes, whose sides can be ended one by one.
type halves struct {
	net.Conn // to read from
	w        net.Conn
}

func (h halves) Write(p []byte) (int, error) { return h.w.Write(p) }
func (h halves) CloseWrite() error           { return h.w.Close() }
func (h halves) Close() error                { return errors.Join(h.w.Close(), h.Conn.Close()) }

// halfPipes are both ends of a connection.
func halfPipes() (here, there halves) {
	thereReads, hereWrites := net.Pipe()
	hereReads, thereWrites := net.Pipe()
	return halves{hereReads, hereWrites}, halves{thereReads, thereWrites}
}

// connectHalves connects a client that can end its side alone.
func (r *rig) connectHalves() *testClient {
	here, there := halfPipes()
	go r.server.Admit(there, nil)
	r.Cleanup(func() { here.Close() })
	return &testClient{r, here, bufio.NewReader(here)}
}

func (c *testClient) closeWrite() { c.Conn.(halves).CloseWrite() }

// What a client sent before it ended its side is answered, all of it.
func TestHalfClosedClientGetsEveryReply(t *testing.T) {
	hold, answer := holding("", echo)
	inBubble(t, 1, Options{Settings: Settings{MaxPipeline: 1}}, answer, func(r *rig) {
		hold.begin()
		c := r.connectHalves()
		c.send("GET k", "PING", "PING", "GET k2", "PING")
		c.closeWrite()
		synctest.Wait()
		hold.release()
		c.expect("+1 GET k\r\n+PONG\r\n+PONG\r\n+1 GET k2\r\n+PONG\r\n")
		c.expectClosed()
	})
}

func TestDrainAnswersEveryCommandThatHasCome(t *testing.T) {
	hold, answer := holding("", echo)
	inBubble(t, 1, Options{Settings: Settings{MaxPipeline: 1}}, answer, func(r *rig) {
		hold.begin()
		c := r.connect()
		c.send("GET k", "PING", "PING", "GET k2", "PING")
		synctest.Wait()
		drained := make(chan error)
		go func() { drained <- r.server.Drain(r.Context()) }()
		synctest.Wait()
		hold.release()
		c.expect("+1 GET k\r\n+PONG\r\n+PONG\r\n+1 GET k2\r\n+PONG\r\n")
		c.expectClosed()
		if err := <-drained; err != nil {
			r.Error(err)
		}
	})
}

// A client that has ended its side and reads slowly is closed behind its last
// reply.
func TestSlowReaderThatHasEndedIsClosed(t *testing.T) {
	big := fmt.Sprintf("$%d\r\n%s\r\n", 300<<10, strings.Repeat("x", 300<<10))
	inBubble(t, 1, Options{}, func(int, string) string { return big }, func(r *rig) {
		c := r.connectHalves()
		c.send("GET k", "GET k")
		c.closeWrite()
		synctest.Wait()
		time.Sleep(time.Second)
		if n, err := io.Copy(io.Discard, c.r); err != nil || n != 2*int64(len(big)) {
			r.Errorf("read %d bytes, %v", n, err)
		}
	})
}

// A client that stops its node's pipe from being read is closed as well.
func TestFullPipeAndEndOfClient(t *testing.T) {
	o := Options{Pipes: pipe.Options{QueueLimit: 100}}
	inBubble(t, 1, o, func(int, string) string { return "+OK\r\n" }, func(r *rig) {
		c := r.connectHalves()
		c.send("SET k " + strings.Repeat("x", 200))
		c.closeWrite()
		c.expect("+OK\r\n")
		c.expectClosed()
	})
}

// grant is what a client gets, and nodeGrant what the acquire script replies, which knows no token.
const grant = "*4\r\n$5\r\ntoken\r\n:7\r\n:30000\r\n:1\r\n"

var nodeGrant = "*4\r\n$33\r\n" + redlock.OwnerOf("token") + "\r\n:7\r\n:30000\r\n:1\r\n"

// scripts waits for a while and says how often the scripts were called: the
// second time takes a grant back.
func (r *rig) scripts() int {
	time.Sleep(time.Second)
	synctest.Wait()
	return strings.Count(r.commands(), "EVALSHA")
}

// A grant whose reply is lost on the way from the node, and can be had no more, is
// taken back, for its client is told of an error.
func TestGrantWithoutAReplyIsTakenBack(t *testing.T) {
	n, start := 0, time.Now()
	answer := func(_ int, command string) string {
		if n++; n == 1 {
			return nodeGrant[:20]
		}
		// the connection is lost in the middle of the reply, then again and again
		if time.Since(start) < 11*time.Second {
			return ""
		}
		return ":1\r\n"
	}
	inBubble(t, 1, Options{}, answer, func(r *rig) {
		start = time.Now()
		c := r.connect()
		c.send("LOCK job")
		synctest.Wait()
		r.connect().send("GET k")
		c.expect("-ERR no node took it in time: the connection was lost after the command was sent: it may " +
			"or may not have run")
		time.Sleep(10 * time.Second)
		seen := strings.Split(r.commands(), "EVALSHA ")
		first, _, _ := strings.Cut(seen[1], " ")
		if last := seen[len(seen)-1]; strings.HasPrefix(last, first) {
			r.Errorf("nothing took the grant back: %s", last)
		}
	})
}

// One whose reply is cut off in its middle is asked for again. R33
func TestGrantCutInItsMiddle(t *testing.T) {
	n := 0
	answer := func(_ int, command string) string {
		switch n++; n {
		case 1:
			return nodeGrant[:20]
		case 2:
			return ""
		}
		return map[bool]string{true: nodeGrant, false: ":1\r\n"}[strings.HasPrefix(command, "EVALSHA")]
	}
	inBubble(t, 1, Options{}, answer, func(r *rig) {
		c := r.connect()
		c.send("LOCK job TOKEN token")
		synctest.Wait()
		r.connect().send("GET k")
		c.expect(grant)
		if n := r.scripts(); n != 2 {
			r.Errorf("%d calls of scripts, want two for the lock: %s", n, r.commands())
		}
	})
}

// A grant that the client did not get is taken back, one that it got is not.
func TestGrantAndTheEndOfItsClient(t *testing.T) {
	for name, test := range map[string]struct {
		end  func(c *testClient)
		want int
	}{
		"gone before the grant": {func(c *testClient) { c.Close() }, 2},
		"read it, then ended":   {func(c *testClient) { c.expect(grant); c.Close() }, 1},
		"read it, went on":      {func(c *testClient) { c.expect(grant); c.send("PING"); c.Close() }, 1},
		"does not read it": {func(c *testClient) { synctest.Wait(); time.Sleep(time.Second); c.Close() },
			2},
	} {
		t.Run(name, func(t *testing.T) {
			answer := func(_ int, command string) string {
				time.Sleep(10 * time.Millisecond)
				return nodeGrant
			}
			inBubble(t, 1, Options{}, answer, func(r *rig) {
				c := r.connect()
				c.send("LOCK job TOKEN token")
				test.end(c)
				if n := r.scripts(); n != test.want {
					r.Errorf("%d calls of scripts, want %d: %s", n, test.want, r.commands())
				}
			})
		})
	}
}

// HTTP requests that a browser was tricked into sending end the connection
// before any of their lines is run, as in Redis.
func TestCrossProtocolRequestsAreCutOff(t *testing.T) {
	inBubble(t, 1, Options{}, echo, func(r *rig) {
		for _, first := range []string{"POST / HTTP/1.1\r\n", "Host: localhost:6380\r\n",
			"*2\r\n$4\r\nPosT\r\n$1\r\n/\r\n"} {
			c := r.connect()
			go c.Write([]byte(first + "SET k v\r\n\r\n"))
			c.expectClosed()
		}
		if seen := r.commands(); seen != "" {
			r.Errorf("the node saw %s", seen)
		}
	})
}

func TestBytesAreCounted(t *testing.T) {
	inBubble(t, 1, Options{}, echo, func(r *rig) {
		c := r.connect()
		c.send("PING", "PING")
		c.expect("+PONG\r\n+PONG\r\n")
		synctest.Wait()
		if s := r.server.Stats(); s.BytesIn != 2*14 || s.BytesOut != 2*7 {
			r.Errorf("%d bytes in, %d out", s.BytesIn, s.BytesOut)
		}
	})
}

// RESET while a LOCK is on its way forgets the tokens of the connection.
func TestResetBehindLock(t *testing.T) {
	inBubble(t, 1, Options{}, func(int, string) string { return nodeGrant }, func(r *rig) {
		c := r.connect()
		c.send("LOCK job TOKEN token", "RESET")
		c.expect(grant + "+RESET\r\n")
	})
}
