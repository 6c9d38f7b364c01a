package proxy

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"lockproxy/cluster"
	"lockproxy/internal/scripted"
)

// uploads are nodes that get large commands. They tell of each connection that is not shared what came over
// it: the names and keys of commands, "..." for a part of one, "end" when it is closed.
type uploads struct {
	*rig
	// the reply to a command by its name and key, as rig.answer has it; nil: +OK
	reply func(node int, command string) string
	// partly is called when a part of a command has come, and may end the connection; or nil
	partly  func() bool
	endless bool // ends are not told

	conn net.Conn // the latest of these

	mu   sync.Mutex
	all  []string
	last string // of all that was ever seen
}

func inUploadBubble(t *testing.T, o Options, test func(u *uploads)) {
	inBubble(t, 2, o, echo, func(r *rig) {
		u := &uploads{rig: r}
		r.node = func(node int, _ cluster.Mode, own bool, here, there net.Conn) (net.Conn, error) {
			if own {
				u.mu.Lock()
				u.conn = there
				u.mu.Unlock()
				go u.serveOwn(node, there)
			} else {
				go r.serve(node, there)
			}
			return here, nil
		}
		test(u)
	})
}

func (u *uploads) serveOwn(node int, nc net.Conn) {
	defer nc.Close()
	defer func() {
		if !u.endless {
			u.note(node, "end")
		}
	}()
	scripted.Each(nc, func(words []string) bool {
		if words[0] == "CLIENT" {
			return scripted.Write(nc, ":7\r\n")
		}
		command := words[0]
		if len(words) > 1 {
			command += " " + words[1][:min(len(words[1]), 8)]
		}
		u.note(node, command)
		u.mu.Lock()
		answer := u.reply
		u.mu.Unlock()
		reply := "+OK\r\n"
		if answer != nil {
			reply = answer(node, command)
		}
		return scripted.Write(nc, reply)
	}, func() bool {
		u.note(node, "...")
		return u.partly == nil || u.partly()
	})
}

func (u *uploads) note(node int, what string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	what = fmt.Sprintf("%d %s", node, what)
	if u.last != what || !strings.HasSuffix(what, "...") {
		u.all = append(u.all, what)
	}
	u.last = what
}

// calls is how many calls of a command were counted.
func (u *uploads) calls(command string) uint64 {
	for _, c := range u.server.shared.Counters.Commands() {
		if c.Name == command {
			return c.Calls
		}
	}
	return 0
}

// saw expects what the nodes saw since it was called last.
func (u *uploads) saw(want string) {
	u.Helper()
	synctest.Wait()
	u.mu.Lock()
	defer u.mu.Unlock()
	if got := strings.Join(u.all, ", "); got != want {
		u.Errorf("the nodes saw %q, want %q", got, want)
	}
	u.all = nil
}

const uploadSize = 3 << 20

// begin sends SET a without the last bytes of its value; end sends these. Slot a is one of node 2.
func (c *testClient) begin() {
	c.Helper()
	c.SetWriteDeadline(time.Now().Add(time.Minute))
	_, err := fmt.Fprintf(c, "*3\r\n$3\r\nSET\r\n$1\r\na\r\n$%d\r\n%s", uploadSize,
		strings.Repeat("v", uploadSize-10))
	if err != nil {
		c.Fatal(err)
	}
}

func (c *testClient) end() {
	c.Helper()
	if _, err := fmt.Fprintf(c, "%s\r\n", strings.Repeat("v", 10)); err != nil {
		c.Fatal(err)
	}
}

// A large command is with its node as soon as its client has written it, and the proxy keeps nothing of it.
// It has its place among the other commands of its client.
func TestUploadGoesAsItComes(t *testing.T) {
	inUploadBubble(t, Options{}, func(u *uploads) {
		c := u.connect()
		c.send("GET a")
		c.begin()
		u.saw("2 SETRANGE a, 2 ...")
		if n := u.used(); n > 200<<10 {
			t.Errorf("%d bytes are kept", n)
		}
		c.end()
		c.send("GET a", "INCR b")
		c.expect("+2 GET a\r\n+OK\r\n+OK\r\n+1 INCR b\r\n")
		u.saw("2 SET a, 2 GET a")
		for _, command := range []string{"set", "get", "incr"} {
			if n := u.calls(command); n != map[string]uint64{"get": 2}[command]+
				map[string]uint64{"set": 1, "incr": 1}[command] {
				t.Errorf("%s was counted %d times", command, n)
			}
		}
	})
}

// While its node takes nothing its client is not read. That is no silence of the node if it is the client who
// pauses.
func TestUploadWaitsForItsNode(t *testing.T) {
	inUploadBubble(t, Options{}, func(u *uploads) {
		stop := make(chan bool)
		var once sync.Once
		u.partly = func() bool {
			once.Do(func() { <-stop })
			return true
		}
		c := u.connect()
		fmt.Fprintf(c, "*3\r\n$3\r\nSET\r\n$1\r\na\r\n$%d\r\n", uploadSize)
		c.SetWriteDeadline(time.Now().Add(time.Second))
		n, err := io.WriteString(c, strings.Repeat("v", uploadSize))
		if err == nil || n > 400<<10 {
			t.Errorf("%d bytes were read (%v)", n, err)
		}
		if n := u.used(); n > 400<<10 {
			t.Errorf("%d bytes are kept", n)
		}
		close(stop)
		c.SetWriteDeadline(time.Time{})
		for left := uploadSize - n; left > 0; left -= min(left, 1<<20) {
			io.WriteString(c, strings.Repeat("v", min(left, 1<<20)))
			time.Sleep(time.Minute)
		}
		io.WriteString(c, "\r\n")
		c.expect("+OK\r\n")
	})
}

// Half a command is never run, however it ends. What came before it is answered. R33
func TestHalfAnUpload(t *testing.T) {
	const half = "2 SETRANGE a, 2 ..., 2 end"
	for name, end := range map[string]func(u *uploads, c *testClient){
		"the client goes": func(u *uploads, c *testClient) { c.Close() },
		"it is killed": func(u *uploads, c *testClient) {
			u.connect().tell(":1\r\n", "CLIENT KILL ID 1")
			c.expectClosed()
		},
		"it breaks the protocol": func(u *uploads, c *testClient) {
			io.WriteString(c, strings.Repeat("v", 10)+"xx*1\r\n$4\r\nPING\r\n")
			c.expect("-ERR Protocol error: invalid CRLF in request\r\n")
			c.expectClosed()
		},
		"it is idle for too long": func(u *uploads, c *testClient) {
			u.change(func(o *Options) { o.IdleTimeout = time.Minute })
			time.Sleep(2 * time.Minute)
			c.expectClosed()
		},
	} {
		t.Run(name, func(t *testing.T) {
			inUploadBubble(t, Options{}, func(u *uploads) {
				c := u.connect()
				c.send("GET a")
				c.expect("+2 GET a\r\n")
				c.begin()
				end(u, c)
				u.saw(half)
				if own := u.server.Stats().Own; own.Used+own.Waiting > 0 {
					t.Errorf("connections are left: %+v", own)
				}
				if n := u.calls("set"); n > 0 {
					t.Error("it was counted")
				}
			})
		})
	}
}

// A node that takes no more is given up, and the rest of the command is dropped.
func TestNodeHangsInsideAnUpload(t *testing.T) {
	inUploadBubble(t, Options{}, func(u *uploads) {
		stop := make(chan bool)
		u.partly = func() bool { <-stop; return false }
		c := u.connect()
		go func() {
			c.begin()
			c.end()
			c.send("PING")
		}()
		c.expect("-ERR the command was not run: no reply within upstream-timeout\r\n+PONG\r\n")
		close(stop)
		u.saw("2 SETRANGE a, 2 ..., 2 end")
	})
}

// A client that ends its side inside of a command gets what it is owed, and no more.
func TestUploadOfAHalfClosedClient(t *testing.T) {
	inUploadBubble(t, Options{}, func(u *uploads) {
		c := u.connectHalves()
		c.send("GET a")
		c.begin()
		c.closeWrite()
		c.expect("+2 GET a\r\n")
		c.expectClosed()
		u.saw("2 SETRANGE a, 2 ..., 2 end")
	})
}

// A drain does not wait for the end of a command.
func TestUploadWhileTheProxyDrains(t *testing.T) {
	inUploadBubble(t, Options{}, func(u *uploads) {
		c := u.connect()
		c.begin()
		u.saw("2 SETRANGE a, 2 ...")
		go u.server.Drain(context.Background())
		c.expect(string(refusedByDrain))
		c.expectClosed()
		u.saw("2 end")
	})
}

// If the node does not run the command, or breaks off, the rest of it is dropped, and the client is told what
// became of it. It is not sent again. R33
func TestNodeBreaksOffAnUpload(t *testing.T) {
	const (
		notRun = "-ERR the command was not run: the node closed the connection inside of it, as it does " +
			"above its client-query-buffer-limit\r\n"
		left = "-TRYAGAIN no node took it in time: the command was not run: its keys went to another node " +
			"while it was sent\r\n"
		unknown = "-ERR the connection was lost after the command was sent: it may or may not have run: " +
			"EOF\r\n"
	)
	for name, tt := range map[string]struct {
		reply        string // to SET
		inside       bool   // it comes before the node has all of it
		want, behind string
	}{
		"it closes the connection":           {"", true, notRun, "2 end"},
		"it closes it behind the command":    {"", false, unknown, "2 SET a, 2 end"},
		"it refuses the first bytes":         {"-ERR x\r\n", true, "-ERR x\r\n", "2 end"},
		"the slot has moved":                 {"-MOVED 1 node:1\r\n", false, left, "2 SET a"},
		"the key has moved":                  {"-ASK 1 node:1\r\n", false, left, "2 SET a"},
		"it has restarted":                   {"-LOADING x\r\n", false, "-LOADING x\r\n", "2 SET a"},
		"it is a replica now":                {"-READONLY x\r\n", false, "-READONLY x\r\n", "2 SET a"},
		"it has no room":                     {"-OOM x\r\n", false, "-OOM x\r\n", "2 SET a"},
		"it has moved, said before the end":  {"-MOVED 1 node:1\r\n", true, left, "2 end"},
		"it says OK before it has the whole": {"+OK\r\n", true, "+OK\r\n", "2 end"},
	} {
		t.Run(name, func(t *testing.T) {
			inUploadBubble(t, Options{}, func(u *uploads) {
				c := u.connect()
				c.begin()
				u.saw("2 SETRANGE a, 2 ...")
				if tt.inside {
					if scripted.Write(u.conn, tt.reply); tt.reply == "" {
						u.conn.Close()
					}
					c.expect(tt.want)
				} else {
					u.mu.Lock()
					u.reply = func(int, string) string { return tt.reply }
					u.mu.Unlock()
				}
				c.end()
				if !tt.inside {
					c.expect(tt.want)
				}
				c.send("GET a")
				c.expect("+2 GET a\r\n")
				u.saw(tt.behind)
			})
		})
	}
}

// A command goes where the question is answered that precedes it.
func TestUploadFollowsRedirects(t *testing.T) {
	inUploadBubble(t, Options{}, func(u *uploads) {
		asked := 0
		u.endless = true
		for _, tt := range []struct{ first, saw string }{
			{"-MOVED 1 node:1\r\n", "2 SETRANGE a, 1 SETRANGE a, 1 ..., 1 SET a"},
			{"-ASK 1 node:1\r\n", "2 SETRANGE a, 1 ASKING, 1 SETRANGE a, 1 ASKING, 1 ..., 1 SET a"},
			{"-LOADING x\r\n", "2 SETRANGE a, 2 SETRANGE a, 2 ..., 2 SET a"},
			{"", "2 SETRANGE a, 2 SETRANGE a, 2 ..., 2 SET a"},
			{"-OOM x\r\n", "2 SETRANGE a, 2 ..., 2 SET a"},
		} {
			u.mu.Lock()
			asked = 0
			u.reply = func(node int, command string) string {
				if asked++; asked == 1 {
					return tt.first
				}
				return "+OK\r\n"
			}
			u.mu.Unlock()
			c := u.connect()
			c.begin()
			c.end()
			c.expect("+OK\r\n")
			u.saw(tt.saw)
			c.Close()
		}
	})
}

// Nothing is sent while no node answers, and in the end the client is told so.
func TestUploadWithoutANode(t *testing.T) {
	inUploadBubble(t, Options{}, func(u *uploads) {
		u.reply = func(int, string) string { return "-CLUSTERDOWN The cluster is down\r\n" }
		c := u.connect()
		sent := make(chan struct{})
		go func() { defer close(sent); c.begin(); c.end() }()
		c.expect("-CLUSTERDOWN The cluster is down\r\n")
		<-sent
		c.tell("+2 GET a\r\n", "GET a")
		synctest.Wait()
		if saw := strings.Join(u.all, ", "); strings.Contains(saw, "...") || strings.Contains(saw, "SET a") {
			t.Errorf("the nodes saw %s", saw)
		}
	})
}

// A command that comes to its end in a pause runs behind it.
func TestUploadInAPause(t *testing.T) {
	inUploadBubble(t, Options{}, func(u *uploads) {
		for _, pause := range []string{"WRITE", "ALL"} {
			c := u.connect()
			c.begin()
			u.connect().tell("+OK\r\n", "CLIENT PAUSE 10000 "+pause)
			c.end()
			u.saw("2 SETRANGE a, 2 ...")
			time.Sleep(9 * time.Second)
			u.saw("")
			c.expect("+OK\r\n")
			u.saw("2 SET a")
			c.Close()
			u.saw("2 end")
		}
	})
}

// What is not a plain write of a client about which there is nothing special is kept until it is whole, as is
// what MONITOR has to show.
func TestNoUpload(t *testing.T) {
	value := strings.Repeat("v", uploadSize)
	for name, tt := range map[string]struct {
		before, command, want, saw string
	}{
		"several keys": {"PING", "MSET a %s", "+PONG\r\n+OK\r\n", "2 ..., 2 MSET a"},
		"a script":     {"PING", "EVAL %s 1 a", "+PONG\r\n+OK\r\n", "2 ..., 2 EVAL vvvvvvvv"},
		"a read":       {"PING", "SISMEMBER a %s", "+PONG\r\n+OK\r\n", "2 ..., 2 SISMEMBER a"},
		"MULTI":        {"MULTI", "SET a %s", "+OK\r\n+QUEUED\r\n", "2 MULTI, 2 ..., 2 SET a"},
		"MONITOR":      {"", "SET a %s", "+OK\r\n", "2 ..., 2 SET a"},
	} {
		t.Run(name, func(t *testing.T) {
			inUploadBubble(t, Options{}, func(u *uploads) {
				u.reply = func(_ int, command string) string {
					if name == "MULTI" && command == "SET a" {
						return "+QUEUED\r\n"
					}
					return "+OK\r\n"
				}
				var monitor *testClient
				if tt.before == "" {
					monitor = u.connect()
					monitor.tell("+OK\r\n", "MONITOR")
				}
				c := u.connect()
				if tt.before != "" {
					c.send(tt.before)
				}
				c.post(fmt.Sprintf(tt.command, value))
				c.expect(tt.want)
				u.saw(tt.saw)
				if monitor != nil {
					line, err := monitor.r.ReadString('\n')
					if want := `"SET" "a" "` + value[:100]; !strings.Contains(line, want) {
						t.Errorf("MONITOR: %.100s (%v)", line, err)
					}
				}
			})
		})
	}
}
