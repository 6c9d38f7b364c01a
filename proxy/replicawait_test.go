package proxy

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"lockproxy/cluster/pipe"
)

// replicas has the nodes answer WAIT at once, with what is said of each.
func (n *blockNodes) replicas(reply map[int]string) {
	n.script(func(node int, command string) string {
		if strings.HasPrefix(command, "WAIT") {
			return reply[node]
		}
		return ""
	})
}

// TestWaitAsksThoseWrittenTo: WAIT concerns the masters that the client wrote to since it was last
// satisfied, in front of one that one, and all if it wrote nothing or nobody knows where.
func TestWaitAsksThoseWrittenTo(t *testing.T) {
	inBlockBubble(t, 3, Options{}, func(n *blockNodes) {
		n.replicas(map[int]string{1: ":3\r\n", 2: ":2\r\n", 3: ":1\r\n"})
		c := n.connect()
		for _, step := range []struct{ lines, nodes, want string }{
			{"GET b", "123", ":1\r\n"}, // nothing was written
			{"SET b 1", "1", ":3\r\n"},
			{"MULTI;SET c 1;EXEC", "2", ":2\r\n"},
			{"MULTI;SET a 1;DISCARD", "2", ":2\r\n"},
			{"SET c 1;SET b 1;GET a", "12", ":2\r\n"},
			{"GET a", "12", ":2\r\n"}, // the same writes once more
			{"SET a 1", "3", ":1\r\n"},
			{"BLPOP c 0.01", "23", ":1\r\n"}, // the last one asked for more than there were
			{"MSET b 1 c 1", "123", ":1\r\n"},
			{"LOCK job", "123", ":1\r\n"},
		} {
			lines := strings.Split(step.lines, ";")
			c.send(lines...)
			for range lines {
				c.SetReadDeadline(time.Now().Add(time.Minute))
				if _, err := c.r.ReadString('\n'); err != nil {
					t.Fatal(err)
				}
			}
			n.asked()
			c.send("WAIT 2 100")
			c.expect(step.want)
			got := n.asked()
			for _, node := range []string{"1", "2", "3"} {
				if strings.Contains(got, node+": WAIT 2 100") != strings.Contains(step.nodes, node) {
					t.Errorf("%s: asked %s", step.lines, got)
				}
			}
		}
	})
}

// TestWaitMarks: since Redis 7.2 a connection that has not written itself waits for nothing.
func TestWaitMarks(t *testing.T) {
	for version, marks := range map[string]bool{"6.2.14": false, "7.0.15": false,
		"7.2.0": true, "7.10.1": true,
		"8.0.0": true} {
		inBlockBubble(t, 3, Options{}, func(n *blockNodes) {
			n.mu.Lock()
			n.version = version
			n.mu.Unlock()
			tries := 0
			n.script(func(_ int, command string) string {
				switch {
				case strings.HasPrefix(command, "WAIT"):
					return ":1\r\n"
				case strings.HasPrefix(command, "EVAL"):
					if tries++; tries < 3 {
						return "-ASK 3300 node:2\r\n"
					}
				}
				return ""
			})
			c := n.connect()
			c.send("WAIT 1 0", "SET b 1", "WAIT 1 0")
			c.expect(":1\r\n+OK\r\n:1\r\n")
			if got := n.asked(); strings.Contains(got, "EVAL") != marks || strings.Contains(got, "2: EVAL") {
				t.Errorf("%s: asked %s", version, got)
			}
		})
	}
}

// TestWaitFails: what cannot be known is not said.
func TestWaitFails(t *testing.T) {
	inBlockBubble(t, 3, Options{}, func(n *blockNodes) {
		c := n.connect()
		c.send("SET b 1", "WAIT 1 5000")
		c.expect("+OK\r\n")
		time.Sleep(time.Second)
		n.kill(1)
		c.expect("-ERR the connection was lost after the command was sent: it may or may not have run: ")
	})
	inBlockBubble(t, 3, Options{}, func(n *blockNodes) { // it was written to, and another is master now
		c := n.connect()
		c.send("SET b 1", "SET c 1")
		c.expect("+OK\r\n+OK\r\n")
		n.move(1, 3)
		c.send("WAIT 1 5000")
		c.expect("-ERR a master that this connection wrote to has been replaced: what became of the writes " +
			"is not known\r\n")
		n.replicas(map[int]string{2: ":2\r\n", 3: ":1\r\n"})
		c.send("SET a 1", "WAIT 1 5000")
		c.expect("+OK\r\n:1\r\n")
	})
	inBlockBubble(t, 3, Options{}, func(n *blockNodes) { // the first error is the answer, and ends the others
		n.script(func(node int, command string) string {
			if strings.HasPrefix(command, "WAIT") && node == 2 {
				return "-ERR timeout is not an integer or out of range\r\n"
			}
			return ""
		})
		c := n.connect()
		c.send("WAIT 1 0")
		c.expect("-ERR timeout is not an integer or out of range\r\n")
		c.send("WAIT 1")
		c.expect("-ERR wrong number of arguments for 'wait' command\r\n")
		synctest.Wait()
		if st := n.server.Stats(); st.Own.Used != 0 || st.Blocked+st.Queued != 0 {
			t.Errorf("%d blocked, %+v", st.Blocked+st.Queued, st.Own)
		}
	})
	inBlockBubble(t, 1, Options{}, func(n *blockNodes) { // the version is not to be had
		info := "-section (server) is not supported\r\n"
		n.script(func(_ int, command string) string {
			switch {
			case strings.HasPrefix(command, "INFO"):
				return info
			case strings.HasPrefix(command, "WAIT"):
				return ":1\r\n"
			}
			return ""
		})
		c := n.connect()
		c.send("SET b 1", "WAIT 1 0")
		c.expect("+OK\r\n:1\r\n")
		n.mu.Lock()
		info = "-NOPERM this user has no permissions to run the 'info' command\r\n"
		n.mu.Unlock()
		c.send("WAIT 1 0")
		c.expect(":1\r\n")
	})
	inBlockBubble(t, 3, Options{MaxOwn: 2, Pipes: pipe.Options{Budget: time.Second}}, func(n *blockNodes) {
		c := n.connect()
		c.send("WAIT 1 0")
		time.Sleep(2 * time.Second)
		c.expect("-ERR the command was not run: all connections that are not shared are in use " +
			"(upstream-own-connections)\r\n")
	})
	// it says nothing at all
	inBlockBubble(t, 1, Options{Pipes: pipe.Options{Timeout: 5 * time.Second}}, func(n *blockNodes) {
		n.replicas(map[int]string{1: "-"})
		c := n.connect()
		c.send("WAIT 1 1000")
		time.Sleep(5 * time.Second)
		c.expectNothing()
		time.Sleep(5 * time.Second)
		c.expect("-ERR the connection was lost after the command was sent: it may or may not have run: no " +
			"reply within upstream-timeout\r\n")
	})
}

// TestWaitEnds: its time is over, it is unblocked, its client leaves.
func TestWaitEnds(t *testing.T) {
	inBlockBubble(t, 3, Options{}, func(n *blockNodes) {
		a, b := n.connect(), n.connect()
		id := a.id()
		a.send("WAIT 1 1500")
		time.Sleep(time.Second)
		a.expectNothing()
		time.Sleep(time.Second)
		a.expect(":0\r\n")
		a.send("WAIT 1 0", "PING")
		for i := 1; i <= 3; i++ {
			if n.blocks(i) != 1 {
				t.Errorf("node %d does not wait", i)
			}
		}
		b.send("CLIENT UNBLOCK " + id)
		b.expect(":1\r\n")
		a.expect(":0\r\n+PONG\r\n")
		a.send("WAIT 1 0", "PING")
		synctest.Wait()
		b.send("CLIENT UNBLOCK " + id + " ERROR")
		b.expect(":1\r\n")
		a.expect(unblocked + "+PONG\r\n")
		a.send("WAIT 1 0", "PING")
		if n.blocks(2) != 1 {
			t.Error("not blocked")
		}
		a.Close()
		for i := 1; i <= 3; i++ {
			if n.blocks(i) != 0 {
				t.Errorf("node %d still waits", i)
			}
		}
	})
}
