package proxy

import (
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"lockproxy/redlock"
	"lockproxy/redlock/scripts"
)

const (
	granted  = "*4\r\n$1\r\nt\r\n:7\r\n:3000\r\n:1\r\n"
	lockLost = ">4\r\n$9\r\nlock-lost\r\n$3\r\njob\r\n:7\r\n$4\r\ngone\r\n"
)

// nodeGranted is what the acquire script replies: it knows no token.
var nodeGranted = "*4\r\n$33\r\n" + redlock.OwnerOf("t") + "\r\n:7\r\n:3000\r\n:1\r\n"

// grants answers the scripts of locks: a node that grants every lock and has no hold
// when one is to be renewed.
func grants(_ int, command string) string {
	switch args := strings.Fields(command); {
	case args[0] == "EVALSHA" && args[2] == "2": // of the lock and of its fence
		return nodeGranted
	case args[0] == "EVALSHA":
		return "*2\r\n:0\r\n:1\r\n"
	}
	return "+OK\r\n"
}

// A client of RESP3 is told at once that it lost a hold; whoever comes with the token is told over any
// connection, and nobody else. R18 R19
func TestLossIsTold(t *testing.T) {
	inBubble(t, 1, Options{}, grants, func(r *rig) {
		two, three, other := r.connect(), r.connect(), r.connect()
		three.send("HELLO 3")
		for end := "modules\r\n*0\r\n"; end != ""; {
			line, err := three.r.ReadString('\n')
			if err != nil {
				r.Fatal(err)
			}
			if strings.HasPrefix(end, line) {
				end = end[len(line):]
			}
		}
		three.send("LOCK job TOKEN t PX 3000 KEEPALIVE")
		three.expect(granted + lockLost)
		three.send("PING")
		three.expect("+PONG\r\n")
		two.send("LOCK job TOKEN t PX 3000 KEEPALIVE")
		two.expect("-LOCKLOST job was lost (gone), fence 7: ")
		two.r.ReadString('\n')
		two.send("LOCK job TOKEN t PX 3000 KEEPALIVE")
		two.expect(granted)
		time.Sleep(10 * time.Second)
		other.send("PING", "LOCK other TOKEN t", "LOCK job TOKEN t PX 3000")
		other.expect("+PONG\r\n" + granted + "-LOCKLOST job was lost (gone), fence 7: ")
		other.r.ReadString('\n')
		two.send("LOCK job TOKEN t PX 3000")
		two.expect(granted)
	})
}

// A push never comes inside a reply, nor before the answer of the command that it is about.
func TestPushKeepsOutOfReplies(t *testing.T) {
	var s *session
	push := func(text string) func(proto int) []byte { return func(int) []byte { return []byte(text) } }
	inBubble(t, 1, Options{}, echo, func(r *rig) {
		c := r.connect()
		c.send("PING")
		c.expect("+PONG\r\n")
		w := r.server.workers[0]
		onLoop := func(f func()) { // runs f on the loop, whatever it has to do before that
			w.loop.Post(f)
			synctest.Wait()
		}
		onLoop(func() {
			for s = range w.sessions {
			}
		})
		var first, second func(func(int) []byte)
		onLoop(func() { // two commands whose replies the test gives
			s.beginCommand(nil)
			first = actions{s}.Pusher()
			s.beginCommand(nil)
			second = actions{s}.Pusher()
		})
		second(push(">1\r\n+second\r\n"))
		first(push(">1\r\n+first\r\n"))
		synctest.Wait()
		onLoop(func() { s.Push(s.answers.head-1, []byte(">1\r\n+early\r\n")) })
		c.expect(">1\r\n+early\r\n")
		onLoop(func() {
			s.Receive(s.answers.head, []byte("$6\r\nab"), false) // the beginning of a reply
			s.Push(s.answers.head-1, []byte(">1\r\n+inside\r\n"))
		})
		c.expect("$6\r\nab")
		onLoop(func() { s.Receive(s.answers.head, []byte("cdef\r\n"), true) })
		c.expect("cdef\r\n>1\r\n+first\r\n>1\r\n+inside\r\n")
		if s.out.held != len(">1\r\n+second\r\n") {
			r.Errorf("%d bytes wait", s.out.held)
		}
		onLoop(func() { s.Receive(s.answers.head, []byte("$1\r\nx\r\n"), true) })
		c.expect("$1\r\nx\r\n>1\r\n+second\r\n")
		onLoop(func() {
			if s.out.held != 0 || s.out.pushes != nil {
				r.Errorf("%d bytes wait in %d pushes", s.out.held, len(s.out.pushes))
			}
		})
		first(push("")) // nothing
		c.Close()
		synctest.Wait()
		first(push(">1\r\n+late\r\n"))
		synctest.Wait()
	})
}

// detaching is how a hold is let go.
var detaching = "EVALSHA " + scripts.Release.SHA

// A client that ends its connection lets go of what it kept alive. When the proxy closes the connection, or
// is shut down, the client goes on with what it holds, through another connection. R18
func TestEndOfConnectionLetsGo(t *testing.T) {
	for _, tt := range []struct {
		name string
		end  func(r *rig, c *testClient)
		want int
	}{
		{"closed", func(r *rig, c *testClient) { c.Close() }, 1},
		{"QUIT", func(r *rig, c *testClient) { c.send("QUIT"); c.expect("+OK\r\n") }, 1},
		{"RESET", func(r *rig, c *testClient) { c.send("RESET"); c.expect("+RESET\r\n") }, 1},
		{"CLIENT KILL", func(r *rig, c *testClient) {
			killer := r.connect()
			killer.send("CLIENT KILL ID 1")
			killer.expect(":1\r\n")
			c.expectClosed()
		}, 0},
		{"bytes that are no command", func(r *rig, c *testClient) {
			go c.Write([]byte("*1\r\n$-7\r\n"))
			c.expect("-ERR Protocol error")
		}, 0},
		{"a reply cut off by the node", func(r *rig, c *testClient) {
			c.send("GET k")
			c.expect("$100\r\nhalf")
			r.on(func() {
				s := r.sessionOf(1)
				s.Fail(s.answers.head, io.ErrUnexpectedEOF)
			})
			c.expectClosed()
		}, 0},
		{"drained", func(r *rig, c *testClient) {
			if err := r.server.Drain(r.Context()); err != nil {
				r.Error(err)
			}
		}, 0},
	} {
		cut := func(node int, command string) string {
			args := strings.Fields(command)
			switch {
			case command == "GET k":
				return "$100\r\nhalf"
			case strings.HasPrefix(command, detaching):
				return ":1\r\n"
			case args[0] == "EVALSHA" && args[2] == "1": // it is renewed
				return "*2\r\n:30000\r\n:1\r\n"
			}
			return grants(node, command)
		}
		for _, linger := range []string{"", " LINGER 5000"} {
			inBubble(t, 1, Options{}, cut, func(r *rig) {
				c := r.connect()
				c.send("LOCK job TOKEN t PX 30000 KEEPALIVE" + linger)
				c.expect(granted)
				c.send("PING") // the grant is read
				c.expect("+PONG\r\n")
				time.Sleep(time.Second) // it is renewed, before the node may be cut off
				tt.end(r, c)
				synctest.Wait()
				want := tt.want
				if linger != "" && tt.name == "closed" {
					want = 0
				}
				if got := strings.Count(r.commands(), detaching); got != want {
					r.Errorf("%s%s: %d requests to let go, want %d", tt.name, linger, got, want)
				}
				time.Sleep(6 * time.Second)
				if got := strings.Count(r.commands(), detaching); got != tt.want {
					r.Errorf("%s%s: %d requests to let go later, want %d", tt.name, linger, got, tt.want)
				}
			})
		}
	}
}

// Who keeps a lock alive works under it, and is not idle however long nothing is said; who has given it back
// is.
func TestWhoKeepsALockIsNotIdle(t *testing.T) {
	renews := func(node int, command string) string {
		if args := strings.Fields(command); args[0] == "EVALSHA" && args[2] == "1" {
			return "*2\r\n:3000\r\n:1\r\n"
		}
		return grants(node, command)
	}
	inBubble(t, 1, Options{Settings: Settings{IdleTimeout: 10 * time.Second}}, renews, func(r *rig) {
		c := r.connect()
		c.send("LOCK job TOKEN t PX 3000 KEEPALIVE")
		c.expect(granted)
		time.Sleep(time.Minute)
		c.send("RESET")
		c.expect("+RESET\r\n")
		released := time.Now()
		c.expectClosed()
		if idle := time.Since(released); idle < 10*time.Second || idle > 12*time.Second {
			r.Errorf("closed %v after it kept nothing any more", idle)
		}
	})
}
