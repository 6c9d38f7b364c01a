package proxy

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"lockproxy/cluster"
	"lockproxy/cluster/pipe"
	"lockproxy/cluster/pipe/owned"
	"lockproxy/internal/resp"
)

// expectNothing says that nothing has come.
func (c *testClient) expectNothing() {
	c.Helper()
	synctest.Wait()
	c.SetReadDeadline(time.Now())
	if b, err := c.r.ReadByte(); err == nil {
		rest := make([]byte, c.r.Buffered())
		c.r.Read(rest)
		c.Fatalf("got %q", string(b)+string(rest))
	}
}

func popped(key, elem string) string { return bulks(key, elem) }

const nullArray = "*-1\r\n"

// TestBlockServed: a client that blocks gets what comes as it came, delays nobody, and gives its
// connection to the next.
func TestBlockServed(t *testing.T) {
	inBlockBubble(t, 3, Options{}, func(n *blockNodes) {
		a, b := n.connect(), n.connect()
		a.send("BLPOP c 0")
		a.expectNothing()
		if n.blocks(2) != 1 {
			t.Error("not blocked")
		}
		b.send("PING", "RPUSH c 1")
		b.expect("+PONG\r\n:1\r\n")
		a.expect(popped("c", "1"))
		before := n.dialed(2)
		b.send("BLPOP c 0.5", "PING")
		time.Sleep(400 * time.Millisecond)
		b.expectNothing()
		time.Sleep(100 * time.Millisecond)
		b.expect(nullArray + "+PONG\r\n")
		if n.dialed(2) != before {
			t.Error("another connection although one was free")
		}
		n.wantAsked("requests", "2: BLPOP c 0, 2: BLPOP c 0.5")
		a.send("BLPOP a b 0")
		a.expect("-CROSSSLOT Keys in request don't hash to the same slot\r\n")
		a.send("BLPOP a")
		a.expect("-ERR wrong number of arguments for 'blpop' command\r\n")
		a.send("XREAD COUNT 1 STREAMS c 0")
		// over the shared connection, where the scripted node blocks all the same
		n.reply(2, nullArray, false)
		a.expect(nullArray)
	})
}

// TestBlockInItsTurn: a command that blocks runs when all before it are answered, and nothing behind it runs
// before it is.
func TestBlockInItsTurn(t *testing.T) {
	inBlockBubble(t, 3, Options{}, func(n *blockNodes) {
		a, b := n.connect(), n.connect()
		n.script(func(_ int, command string) string {
			if command == "GET a" {
				return "-" // a node that is slow
			}
			return ""
		})
		a.send("RPUSH c 1", "BLPOP c 0", "BLPOP c 0", "LLEN c")
		a.expect(":1\r\n" + popped("c", "1"))
		a.expectNothing()
		b.send("RPUSH c 2")
		b.expect(":1\r\n")
		a.expect(popped("c", "2") + ":0\r\n")
		n.asked()
		a.send("GET a", "BLPOP c 0", "SET c 1")
		n.wantAsked("behind a slow one", "")
		a.expectNothing()
		n.kill(3)
		a.expectNothing() // it is asked again elsewhere
		n.wantAsked("behind a lost one", "")
		time.Sleep(time.Minute)
		a.expect("-ERR no node took it in time: the connection was lost")
		n.wantAsked("behind a failed one", "2: BLPOP c 0")
		a.Close()
	})
}

// TestBlockedClientLeaves: what is pushed for a client that has left stays, however long ago it began to
// wait, and whatever it had sent behind that, which does not run.
func TestBlockedClientLeaves(t *testing.T) {
	const much = 300_000
	long := fmt.Sprintf("*3\r\n$5\r\nRPUSH\r\n$1\r\nc\r\n$%d\r\n%s\r\n", much, strings.Repeat("x", much))
	for name, behind := range map[string]string{
		"alone": "", "more": "RPUSH c x\r\n", "much": strings.Repeat("RPUSH c x\r\n", much/11), "long": long,
		"a part": long[:much/2],
	} {
		for _, after := range []time.Duration{0, time.Second} {
			for _, half := range []bool{false, true} {
				t.Run(fmt.Sprint(name, after, half), func(t *testing.T) {
					blockedClientLeaves(t, behind, after, half)
				})
			}
		}
	}
}

// blockedClientLeaves is TestBlockedClientLeaves for a client that writes behind, and leaves after that time.
// half: it ends its side, and is closed then.
func blockedClientLeaves(t *testing.T, behind string, after time.Duration, half bool) {
	inBlockBubble(t, 3, Options{}, func(n *blockNodes) {
		a, b := n.connectHalves(), n.connect()
		b.send("LLEN c") // the shared connection is there
		b.expect(":0\r\n")
		a.send("BLPOP c 0")
		if n.blocks(2) != 1 {
			t.Error("not blocked")
		}
		a.Write([]byte(behind))
		time.Sleep(after)
		if half {
			a.closeWrite()
			a.expectClosed()
		} else {
			a.Close()
		}
		if n.blocks(2) != 0 {
			t.Error("still blocked")
		}
		n.wantAsked("before the end", "2: BLPOP c 0")
		b.send("RPUSH c 1", "LLEN c")
		b.expect(":1\r\n:1\r\n")
		if st := n.server.Stats(); st.Blocked+st.Queued != 0 || st.Own != (owned.Stats{}) {
			t.Errorf("%d blocked, connections %+v", st.Blocked+st.Queued, st.Own)
		}
	})
}

// TestBlockedClientEnds: a client that has ended its side gets what is there when its command comes to the
// node, and goes on with what it sent behind it, until it would have to wait.
func TestBlockedClientEnds(t *testing.T) {
	inBlockBubble(t, 3, Options{}, func(n *blockNodes) {
		a := n.connectHalves()
		a.send("RPUSH c 1", "RPUSH c 2", "BLPOP c 0", "BLPOP c 0", "LLEN c", "PING", "BLPOP c 5", "PING")
		a.closeWrite()
		a.expect(":1\r\n:2\r\n" + popped("c", "1") + popped("c", "2") + ":0\r\n+PONG\r\n")
		a.expectClosed()
		if n.blocks(2) != 0 {
			t.Error("still blocked")
		}
	})
}

// TestBlockedBehindMoreThanIsKept: a client that sends more than is kept of it, and is not read, is closed.
func TestBlockedBehindMoreThanIsKept(t *testing.T) {
	o := Options{Settings: Settings{Limits: resp.Limits{Command: 1 << 20}}}
	inBlockBubble(t, 1, o, func(n *blockNodes) {
		a := n.connect()
		a.send("BLPOP b 0")
		if n.blocks(1) != 1 {
			t.Error("not blocked")
		}
		if _, err := a.Write(make([]byte, 3<<20)); err == nil {
			t.Error("all of it is kept")
		}
		if n.blocks(1) != 0 {
			t.Error("still blocked")
		}
	})
}

// TestBlockRedirected: what had no effect is asked again where it belongs, with the time that is left.
func TestBlockRedirected(t *testing.T) {
	for name, test := range map[string]struct{ reply, asked string }{
		"moved": {"-MOVED 3300 node:3\r\n", "1: BLPOP b 9, 3: BLPOP b 9.000"},
		"ask":   {"-ASK 3300 node:3\r\n", "1: BLPOP b 9, 3: ASKING, 3: BLPOP b 9.000"},
		"tryagain": {"-TRYAGAIN Multiple keys request during rehashing of slot\r\n",
			"1: BLPOP b 9, 1: BLPOP b 8.990"},
		"loading": {"-LOADING Redis is loading the dataset in memory\r\n", "1: BLPOP b 9, 1: BLPOP b 8.990"},
		"readonly": {"-READONLY You can't write against a read only replica.\r\n",
			"1: BLPOP b 9, 1: BLPOP b 8.990"},
		"down":  {"-CLUSTERDOWN The cluster is down\r\n", "1: BLPOP b 9, 1: BLPOP b 8.990"},
		"final": {"-WRONGTYPE Operation against a key holding the wrong kind of value\r\n", "1: BLPOP b 9"},
	} {
		t.Run(name, func(t *testing.T) {
			inBlockBubble(t, 3, Options{}, func(n *blockNodes) {
				n.once("BLPOP", test.reply)
				a := n.connect()
				a.send("BLPOP b 9")
				time.Sleep(100 * time.Millisecond)
				n.wantAsked("at once", test.asked)
				if name == "final" {
					a.expect(test.reply)
					return
				}
				a.expectNothing()
				time.Sleep(9 * time.Second)
				a.expect(nullArray)
			})
		})
	}
}

// TestBlockMoves: the node of a blocked client becomes a replica, or its slot goes elsewhere.
func TestBlockMoves(t *testing.T) {
	const demoted = "-UNBLOCKED force unblock from blocking operation, instance state changed (master -> " +
		"replica?)\r\n"
	inBlockBubble(t, 3, Options{}, func(n *blockNodes) {
		a, b := n.connect(), n.connect()
		a.send("BLPOP b 10")
		b.send("BLPOP b 0")
		time.Sleep(2500 * time.Millisecond)
		n.move(1, 3)
		n.reply(1, demoted, true)
		time.Sleep(100 * time.Millisecond)
		a.expectNothing()
		got := n.asked()
		if strings.Count(got, "3: BLPOP b 7.490") != 1 || strings.Count(got, "3: BLPOP b 0") != 1 {
			t.Errorf("asked %s", got)
		}
		n.reply(3, "-MOVED 3300 node:2\r\n", false)
		n.move(3, 2)
		time.Sleep(400 * time.Millisecond)
		n.asked()
		n.reply(2, "-CLUSTERDOWN The cluster is down\r\n", false)
		n.script(func(_ int, command string) string {
			if strings.HasPrefix(command, "BLPOP") {
				return "-CLUSTERDOWN The cluster is down\r\n"
			}
			return ""
		})
		time.Sleep(8 * time.Second)
		a.expect(nullArray) // a node has looked, and it was there for nobody
		b.expectNothing()
		time.Sleep(4 * time.Second)
		b.expect("-CLUSTERDOWN The cluster is down\r\n") // the budget is used up
	})
	inBlockBubble(t, 1, Options{}, func(n *blockNodes) {
		n.script(func(_ int, command string) string {
			if strings.HasPrefix(command, "BLPOP") {
				return "-MOVED 1 node:1\r\n"
			}
			return ""
		})
		a := n.connect()
		a.send("BLPOP b 0.1") // no node has looked
		time.Sleep(9 * time.Second)
		a.expectNothing()
		a.expect("-CLUSTERDOWN Hash slot not served\r\n") // the budget is used up
	})
}

// TestBlockRidesOut: a command whose timeout is over before any node has had it waits for one as others do,
// and then takes what is there.
func TestBlockRidesOut(t *testing.T) {
	inBlockBubble(t, 3, Options{}, func(n *blockNodes) {
		n.script(func(_ int, command string) string {
			if strings.HasPrefix(command, "BLPOP") {
				return "-CLUSTERDOWN The cluster is down\r\n"
			}
			return ""
		})
		a := n.connect()
		a.send("BLPOP b 0.3")
		time.Sleep(3 * time.Second)
		a.expectNothing()
		n.asked()
		n.script(func(int, string) string { return "" })
		time.Sleep(300 * time.Millisecond)
		n.wantAsked("once it can", "1: BLPOP b 0.002")
		a.expect(nullArray)
	})
}

// TestBlockLost: a connection that is lost before the command is written does no harm. Afterwards only what
// reads is asked again.
func TestBlockLost(t *testing.T) {
	const unknown = ": the connection was lost after the command was sent: it may or may not have run: "
	inBlockBubble(t, 3, Options{}, func(n *blockNodes) {
		a := n.connect()
		n.once("PING", "cut") // right before the command
		a.send("BLPOP b 9")
		time.Sleep(time.Second)
		n.wantAsked("before it was written", "1: BLPOP b 8.990")
		n.kill(1)
		a.expect("-ERR" + strings.TrimPrefix(unknown, ":"))
	})
	inBlockBubble(t, 3, Options{}, func(n *blockNodes) {
		a, b := n.connect(), n.connect()
		a.send("XREAD BLOCK 60000 STREAMS b 7-0")
		b.send("XREAD BLOCK 60000 STREAMS b $")
		time.Sleep(time.Second)
		n.kill(1)
		b.expect("-ERR" + strings.TrimPrefix(unknown, ":"))
		time.Sleep(3 * time.Second)
		n.move(1, 2)
		time.Sleep(time.Second)
		a.expectNothing()
		if got := n.asked(); !strings.Contains(got, "2: XREAD BLOCK 56000") {
			t.Errorf("asked %s", got)
		}
		n.reply(2, "*0\r\n", false)
		a.expect("*0\r\n")
		a.send("XREAD BLOCK 0 STREAMS b 7-0")
		time.Sleep(time.Minute)
		n.kill(2)
		time.Sleep(9 * time.Second)
		a.expectNothing()
		time.Sleep(2 * time.Second)
		a.expect("-CLUSTERDOWN no node took it in time: the command was not run: connection refused\r\n")
	})
	inBlockBubble(t, 3, Options{}, func(n *blockNodes) { // nobody takes it
		n.kill(1)
		a := n.connect()
		a.send("BLPOP b 60")
		time.Sleep(9 * time.Second)
		a.expectNothing()
		time.Sleep(2 * time.Second)
		a.expect("-CLUSTERDOWN no node took it in time: the command was not run: connection refused\r\n")
	})
}

// TestBlockFresh: what asks for what comes from now on is asked again only if nothing can have been missed.
func TestBlockFresh(t *testing.T) {
	const missed = "-UNBLOCKED the node that was asked for what comes next has changed: some of it may " +
		"have been missed\r\n"
	inBlockBubble(t, 3, Options{}, func(n *blockNodes) {
		a := n.connect()
		n.once("XREAD", "-MOVED 3300 node:3\r\n")
		a.send("XREAD BLOCK 0 STREAMS b $")
		n.wantAsked("at once", "1: XREAD BLOCK 0 STREAMS b $, 3: XREAD BLOCK 0 STREAMS b $")
		time.Sleep(time.Second)
		n.reply(3, "-MOVED 3300 node:2\r\n", false)
		a.expect(missed)
		n.script(func(_ int, command string) string {
			if strings.HasPrefix(command, "XREAD") {
				return "-CLUSTERDOWN The cluster is down\r\n"
			}
			return ""
		})
		a.send("XREAD BLOCK 0 STREAMS b $")
		time.Sleep(3 * time.Second)
		a.expect(missed)
		a.send("PING")
		a.expect("+PONG\r\n")
	})
}

// TestBlockBounded: there are no more connections than may be; who finds no place is told so by name.
func TestBlockBounded(t *testing.T) {
	inBlockBubble(t, 3, Options{MaxOwn: 1}, func(n *blockNodes) {
		a, b, c := n.connect(), n.connect(), n.connect()
		a.send("BLPOP b 0")
		synctest.Wait()
		b.send("BLPOP b 3")
		synctest.Wait()
		c.send("BLPOP b 0")
		time.Sleep(2 * time.Second)
		if st := n.server.Stats(); st.Blocked+st.Queued != 3 ||
			st.Own != (owned.Stats{Used: 1, Waiting: 2}) {
			t.Errorf("%d blocked, connections %+v", st.Blocked+st.Queued, st.Own)
		}
		n.reply(1, popped("b", "1"), false)
		a.expect(popped("b", "1"))
		n.wantAsked("the next", "1: BLPOP b 0, 1: BLPOP b 1.000")
		time.Sleep(2 * time.Second)
		b.expect(nullArray)
		time.Sleep(10 * time.Second)
		b.send("BLPOP b 0")
		time.Sleep(9 * time.Second)
		b.expectNothing()
		time.Sleep(2 * time.Second)
		b.expect("-ERR the command was not run: all connections that are not shared are in use " +
			"(upstream-own-connections)\r\n")
		n.reply(1, popped("b", "1"), false)
		c.expect(popped("b", "1"))
	})
}

// TestBlockShare: whoever blocks over many connections leaves places for others, and is told why it has to
// wait.
func TestBlockShare(t *testing.T) {
	inBlockBubble(t, 3, Options{MaxOwn: 16}, func(n *blockNodes) {
		var clients []*testClient
		for range 20 {
			c := n.connect()
			c.send("BLPOP b 0")
			synctest.Wait()
			clients = append(clients, c)
		}
		if st := n.server.Stats(); st.Own != (owned.Stats{Used: 12, Waiting: 8}) {
			t.Errorf("connections %+v", st.Own)
		}
		time.Sleep(11 * time.Second)
		clients[19].expect("-ERR the command was not run: all connections that are not shared are in use " +
			"(upstream-own-connections): this address and user have 12 of them, as many as one client may " +
			"while few are free\r\n")
		for _, c := range clients {
			c.Close()
		}
	})
}

// TestBlockOverdue: a node that does not even answer when the time is over is given up.
func TestBlockOverdue(t *testing.T) {
	inBlockBubble(t, 1, Options{Pipes: pipe.Options{Timeout: 5 * time.Second}}, func(n *blockNodes) {
		n.script(func(_ int, command string) string {
			if strings.HasPrefix(command, "BLPOP") {
				return "-"
			}
			return ""
		})
		a, b := n.connect(), n.connect()
		a.send("BLPOP b 3")
		b.send("BLPOP b 0")
		time.Sleep(7 * time.Second)
		a.expectNothing()
		time.Sleep(5 * time.Second)
		a.expect("-ERR the connection was lost after the command was sent: it may or may not have run: no " +
			"reply within upstream-timeout\r\n")
		time.Sleep(time.Hour)
		b.expectNothing()
	})
}

// TestBlockDrained: when the proxy ends, clients that block are answered, and nothing that was taken for them
// is lost.
func TestBlockDrained(t *testing.T) {
	const draining = "-TRYAGAIN lockproxy is shutting down: ask another one, or later\r\n"
	inBlockBubble(t, 3, Options{MaxOwn: 3}, func(n *blockNodes) {
		var clients []*testClient
		for i, line := range []string{"BLPOP b 0", "XREAD BLOCK 0 STREAMS b 0", "WAIT 1 0", "BLPOP b 0",
			"BLPOP b 0"} {
			c := n.connect()
			c.send(line)
			if i == 1 {
				synctest.Wait()
			}
			clients = append(clients, c)
		}
		time.Sleep(time.Second)
		n.drain()
		for _, c := range clients {
			c.expect(draining)
			c.expectClosed()
		}
	})
	inBlockBubble(t, 1, Options{}, func(n *blockNodes) { // a node that does not end it
		n.script(func(_ int, command string) string {
			if strings.HasPrefix(command, "CLIENT UNBLOCK") {
				return ":0\r\n"
			}
			return ""
		})
		c := n.connect()
		c.send("BLPOP b 0")
		n.drain()
		c.expect("-ERR the connection was lost after the command was sent: it may or may not have run: not " +
			"needed any more\r\n")
		c.expectClosed()
	})
	inBlockBubble(t, 3, Options{}, func(n *blockNodes) { // a node that fails in the middle of its reply
		c := n.connect()
		c.send("BLPOP b 0")
		n.reply(1, "*2\r\n$1\r\nb\r\n$9\r\nhal", false)
		c.expect("*2\r\n$1\r\nb\r\n$9\r\nhal")
		n.drain()
		n.kill(1)
		c.expectClosed()
	})
}

// TestBlockModes: a command goes over a connection of its client's protocol.
func TestBlockModes(t *testing.T) {
	inBlockBubble(t, 1, Options{}, func(n *blockNodes) {
		c := n.connect()
		c.send("HELLO 3", "BLPOP b 0.1")
		go io.Copy(io.Discard, c)
		time.Sleep(time.Second)
		synctest.Wait()
		n.mu.Lock()
		defer n.mu.Unlock()
		if len(n.modes) != 1 || n.modes[0] != (cluster.Mode{Proto: 3}) {
			t.Errorf("connections %+v", n.modes)
		}
	})
}
