package proxy

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"lockproxy/cluster/pipe"
	"lockproxy/cluster/pipe/owned"
	"lockproxy/redlock/scripts"
)

// id is the client's id.
func (c *testClient) id() string {
	c.Helper()
	c.send("CLIENT ID")
	c.SetReadDeadline(time.Now().Add(time.Minute))
	line, err := c.r.ReadString('\n')
	if err != nil {
		c.Fatal(err)
	}
	return strings.Trim(line, ":\r\n")
}

const unblocked = "-UNBLOCKED client unblocked via CLIENT UNBLOCK\r\n"

// TestClientUnblock ends waits at the node, by the ids of the proxy, from whichever loop.
func TestClientUnblock(t *testing.T) {
	for _, loops := range []int{1, 3} {
		inBlockBubble(t, 3, Options{Loops: loops}, func(n *blockNodes) {
			a, b, c := n.connect(), n.connect(), n.connect()
			ids := []string{a.id(), b.id(), c.id()}
			for _, id := range append(ids, "99", "-1") {
				c.send("CLIENT UNBLOCK " + id)
				c.expect(":0\r\n")
			}
			a.send("BLPOP b 0", "PING")
			b.send("BLPOP c 0", "PING")
			synctest.Wait()
			c.send("CLIENT UNBLOCK "+ids[0], "CLIENT UNBLOCK "+ids[1]+" ERROR", "CLIENT UNBLOCK "+ids[0])
			c.expect(":1\r\n:1\r\n:0\r\n")
			a.expect(nullArray + "+PONG\r\n")
			b.expect(unblocked + "+PONG\r\n")
			a.send("BLPOP b 0")
			if n.blocks(1) != 1 {
				t.Error("not blocked any more")
			}
			c.send("RPUSH b 1")
			c.expect(":1\r\n")
			a.expect(popped("b", "1"))
		})
	}
}

// TestClientUnblockElsewhere ends waits that are not with a node: for earlier commands, for a place, for a
// node, for a lock.
func TestClientUnblockElsewhere(t *testing.T) {
	inBlockBubble(t, 1, Options{MaxOwn: 1}, func(n *blockNodes) {
		a, b, c := n.connect(), n.connect(), n.connect()
		bID, cID := b.id(), c.id()
		a.send("BLPOP b 0")
		synctest.Wait()
		b.send("BLPOP b 0", "WAIT 1 0")
		for _, line := range []string{"CLIENT UNBLOCK " + bID, "CLIENT UNBLOCK " + bID + " TIMEOUT"} {
			synctest.Wait()
			c.send(line)
			c.expect(":1\r\n")
		}
		b.expect(nullArray + ":0\r\n")
		b.send("BLPOP b 0", "WAIT 1 0")
		for range 2 {
			synctest.Wait()
			c.send("CLIENT UNBLOCK " + bID + " ERROR")
			c.expect(":1\r\n")
		}
		b.expect(unblocked + unblocked)
		n.wantAsked("in vain", "1: BLPOP b 0")
		n.reply(1, popped("b", "1"), false)
		a.expect(popped("b", "1"))
		n.once("BLPOP", "-CLUSTERDOWN The cluster is down\r\n")
		c.send("BLPOP b 5")
		synctest.Wait()
		a.send("CLIENT UNBLOCK "+cID, "PING")
		a.expect(":1\r\n+PONG\r\n")
		c.expect(nullArray)
		time.Sleep(time.Second)
		n.wantAsked("given up", "1: BLPOP b 5")
		if st := n.server.Stats(); st.Blocked+st.Queued != 0 || st.Own != (owned.Stats{Idle: 1}) {
			t.Errorf("%d blocked, connections %+v", st.Blocked+st.Queued, st.Own)
		}
	})
	all := scripts.All()
	cancel := all[slices.IndexFunc(all, func(s scripts.Script) bool { return s.Name == "cancel" })].SHA
	inBubble(t, 1, Options{}, func(_ int, command string) string {
		switch {
		case strings.HasPrefix(command, "EVALSHA "+cancel):
			return ":1\r\n"
		case strings.HasPrefix(command, "EVALSHA"):
			return "*3\r\n$4\r\nbusy\r\n:60000\r\n:0\r\n"
		}
		return echo(1, command)
	}, func(r *rig) {
		a, b := r.connect(), r.connect()
		id := a.id()
		for reason, want := range map[string]string{"": "$-1\r\n", " TIMEOUT": "$-1\r\n",
			" ERROR": unblocked} {
			a.send("LOCK job WAIT 5000", "PING")
			synctest.Wait()
			b.send("CLIENT UNBLOCK" + " " + id + reason)
			b.expect(":1\r\n")
			a.expect(want + "+PONG\r\n")
			b.send("CLIENT UNBLOCK " + id)
			b.expect(":0\r\n")
		}
		a.send("LOCK job WAIT 100")
		time.Sleep(time.Second)
		a.expect("$-1\r\n")
	})
}

// TestUnblockHitsNobodyElse: until it is known what became of CLIENT UNBLOCK nobody else gets the connection.
func TestUnblockHitsNobodyElse(t *testing.T) {
	inBlockBubble(t, 1, Options{Pipes: pipe.Options{Timeout: 2 * time.Second}}, func(n *blockNodes) {
		a, b, c := n.connect(), n.connect(), n.connect()
		id := a.id()
		a.send("BLPOP b 0")
		synctest.Wait()
		slow := true
		n.script(func(_ int, command string) string {
			if strings.HasPrefix(command, "CLIENT UNBLOCK") && slow {
				return "-"
			}
			return ""
		})
		c.send("CLIENT UNBLOCK " + id)
		synctest.Wait()
		n.reply(1, popped("b", "1"), false)
		a.expect(popped("b", "1"))
		b.send("BLPOP b 0")
		synctest.Wait()
		if st := n.server.Stats(); st.Own != (owned.Stats{Used: 2}) {
			t.Errorf("connections %+v", st.Own)
		}
		n.mu.Lock()
		slow = false
		n.mu.Unlock()
		c.expect(":0\r\n")
		if st := n.server.Stats(); st.Own != (owned.Stats{Used: 1, Idle: 1}) || n.blocks(1) != 1 {
			t.Errorf("connections %+v", st.Own)
		}
		n.reply(1, popped("b", "2"), false)
		b.expect(popped("b", "2"))
	})
}

// TestUnblockFollows: a client whose command went elsewhere just now is unblocked there.
func TestUnblockFollows(t *testing.T) {
	inBlockBubble(t, 3, Options{}, func(n *blockNodes) {
		a, c := n.connect(), n.connect()
		id := a.id()
		a.send("BLPOP b 0")
		synctest.Wait()
		moved := false
		n.script(func(node int, command string) string { // n.mu is held
			if strings.HasPrefix(command, "CLIENT UNBLOCK") && !moved {
				moved = true
				for _, conn := range append([]*blockConn(nil), n.nodes[1].blocked...) {
					conn.unblock("-MOVED 3300 node:2\r\n")
				}
				return ":0\r\n"
			}
			return ""
		})
		c.send("CLIENT UNBLOCK " + id + " ERROR")
		a.expect(unblocked)
		c.expect(":1\r\n")
		n.wantAsked("requests",
			"1: BLPOP b 0, 1: CLIENT UNBLOCK 101 ERROR, 2: BLPOP b 0, 2: CLIENT UNBLOCK 201 ERROR")
	})
}

// TestFlagOfBlockedClients: the session says that it is blocked, for CLIENT LIST.
func TestFlagOfBlockedClients(t *testing.T) {
	inBlockBubble(t, 1, Options{}, func(n *blockNodes) {
		a := n.connect()
		blocked := func() (all string) {
			synctest.Wait()
			done := make(chan bool)
			w := n.server.workers[0]
			w.loop.Post(func() {
				for s := range w.sessions {
					all += fmt.Sprint(s.Blocked)
				}
				close(done)
			})
			<-done
			return all
		}
		a.send("BLPOP b 1")
		if got := blocked(); got != "true" {
			t.Errorf("while it blocks: %s", got)
		}
		time.Sleep(2 * time.Second)
		if got := blocked(); got != "false" {
			t.Errorf("afterwards: %s", got)
		}
		a.expect(nullArray)
	})
}

// Two clients end the same wait for a lock before it has noticed.
func TestUnblockTwiceAtOnce(t *testing.T) {
	inBubble(t, 1, Options{}, func(_ int, command string) string {
		if strings.HasPrefix(command, "EVALSHA") {
			return "*3\r\n$4\r\nbusy\r\n:60000\r\n:0\r\n"
		}
		return echo(1, command)
	}, func(r *rig) {
		a := r.connect()
		a.send("LOCK job WAIT 5000", "PING")
		synctest.Wait()
		first, second := make(chan bool, 1), make(chan bool, 1)
		r.on(func() {
			for i, to := range []chan bool{first, second} {
				r.server.shared.Clients.Find(1).Unblock(i == 0, func(done bool) { to <- done })
			}
		})
		if !<-first || <-second {
			t.Error("not the first one has ended it")
		}
		a.expect(unblocked + "+PONG\r\n")
	})
}

// A client that has ended its side of the connection, and does not read, waits for nothing that could be
// ended.
func TestUnblockOfAHalfClosedWait(t *testing.T) {
	inBlockBubble(t, 1, Options{}, func(n *blockNodes) {
		big := fmt.Sprintf("$%d\r\n%s\r\n", 1<<20, strings.Repeat("x", 1<<20))
		n.once("GET", big)
		a, b := n.connectHalves(), n.connect()
		id := a.id()
		a.send("GET b", "WAIT 1 0")
		synctest.Wait()
		a.closeWrite()
		synctest.Wait()
		b.send("CLIENT UNBLOCK "+id, "PING")
		b.expect(":0\r\n+PONG\r\n")
		a.expect(big)
		a.expectClosed()
	})
}
