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
)

// What a node says to MULTI that is neither a status nor an error must not become a part of an answer: the
// rest of it would be the answer to the next command.
func TestMultiIsAnsweredByNoStatus(t *testing.T) {
	const refused = "-ERR the upstream answered MULTI in a form that lockproxy does not expect\r\n"
	for _, reply := range []string{"$9\r\nab\r\n+X\r\nc\r\n", "*2\r\n+a\r\n+b\r\n", ":5\r\n"} {
		inTxBubble(t, 3, Options{}, func(r *rig, n *txNodes) {
			n.intercept(once(1, "MULTI", reply))
			c := r.connect()
			c.send("MULTI", "SET foo 1")
			c.expect(ok + refused)
			c.send("EXEC", "PING")
			c.expect("-EXECABORT Transaction discarded because of previous errors.\r\n+PONG\r\n")
		})
	}
}

// A transaction whose node goes away, or which stands at the wrong node, is queued anew elsewhere, and
// run once.
func TestTransactionIsReplayed(t *testing.T) {
	const moved, asked = "-MOVED 12182 node:1\r\n", "-ASK 12182 node:1\r\n"
	for name, test := range map[string]struct {
		times          int
		command, reply string
		seen           string // one at a time
		ran            string
	}{
		"lost at MULTI": {1, "MULTI", "", "3: MULTI, 3: MULTI, 3: SET foo 1, 3: INCR foo, 3: EXEC",
			"3: SET foo 1, 3: INCR foo"},
		"lost at queue": {1, "INCR foo", "",
			"3: MULTI, 3: SET foo 1, 3: INCR foo, 3: MULTI, 3: SET foo 1, 3: INCR foo, 3: EXEC",
			"3: SET foo 1, 3: INCR foo"},
		"MOVED at queue": {1, "SET foo 1", moved,
			"3: MULTI, 3: SET foo 1, 1: MULTI, 1: SET foo 1, 1: INCR foo, 1: EXEC",
			"1: SET foo 1, 1: INCR foo"},
		"MOVED at second": {1, "INCR foo", moved,
			"3: MULTI, 3: SET foo 1, 3: INCR foo, 1: MULTI, 1: SET foo 1, 1: INCR foo, 1: EXEC",
			"1: SET foo 1, 1: INCR foo"},
		"ASK at queue": {1, "SET foo 1", asked,
			"3: MULTI, 3: SET foo 1, 1: ASKING, 1: MULTI, 1: SET foo 1, 1: INCR foo, 1: EXEC",
			"1: ASKING, 1: SET foo 1, 1: INCR foo"},
		"MOVED at EXEC": {1, "EXEC", moved,
			"3: MULTI, 3: SET foo 1, 3: INCR foo, 3: EXEC, 1: MULTI, 1: SET foo 1, 1: INCR foo, 1: EXEC",
			"1: SET foo 1, 1: INCR foo"},
		"LOADING twice": {2, "EXEC",
			"-EXECABORT Transaction discarded because of: LOADING Redis is loading the dataset in memory\r\n",
			"3: MULTI, 3: SET foo 1, 3: INCR foo, 3: EXEC, 3: MULTI, 3: SET foo 1, 3: INCR foo, 3: EXEC, " +
				"3: MULTI, 3: SET foo 1, 3: INCR foo, 3: EXEC", "3: SET foo 1, 3: INCR foo"},
		"TRYAGAIN": {1, "EXEC", "-TRYAGAIN Multiple keys request during rehashing of slot\r\n",
			"3: MULTI, 3: SET foo 1, 3: INCR foo, 3: EXEC, 3: MULTI, 3: SET foo 1, 3: INCR foo, 3: EXEC",
			"3: SET foo 1, 3: INCR foo"},
	} {
		for _, pipelined := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s pipelined %v", name, pipelined), func(t *testing.T) {
				inTxBubble(t, 3, Options{}, func(r *rig, n *txNodes) {
					n.intercept(once(test.times, test.command, test.reply))
					c := r.connect()
					steps := [][2]string{{"MULTI", ok}, {"SET foo 1", queuedOK},
						{"INCR foo", queuedOK}, {"EXEC", ran2}}
					if pipelined {
						c.send("MULTI", "SET foo 1", "INCR foo", "EXEC")
					}
					for _, step := range steps {
						if !pipelined {
							c.send(step[0])
						} else if name == "lost at queue" && step[0] == "EXEC" {
							c.expectError("may or may not have run") // EXEC was sent with it
							wantRan(r, n, "")
							return
						}
						c.expect(step[1])
					}
					if !pipelined {
						wantSeen(r, n, test.seen)
					}
					wantRan(r, n, test.ran)
				})
			})
		}
	}
}

// expectError reads an error that says so.
func (c *testClient) expectError(text string) {
	c.Helper()
	c.SetReadDeadline(time.Now().Add(time.Minute))
	if line, err := c.r.ReadString('\n'); err != nil || line[0] != '-' || !strings.Contains(line, text) {
		c.Fatalf("got %q (%v), want an error: %s", line, err, text)
	}
}

// EXEC was sent and the connection is lost: the client hears that nobody knows, and it is not
// run again, unless it only reads.
func TestExecIsLost(t *testing.T) {
	inTxBubble(t, 3, Options{}, func(r *rig, n *txNodes) {
		for _, lines := range [][]string{{"MULTI", "SET foo 1", "INCR foo", "EXEC"},
			{"MULTI", "SET foo 1", "INCR foo"}} {
			n.intercept(once(1, "EXEC", ""))
			c := r.connect()
			c.send(lines...)
			c.expect(ok + queuedOK + queuedOK)
			if len(lines) < 4 {
				c.send("EXEC")
			}
			c.expectError("may or may not have run")
			c.send("EXEC", "GET foo")
			c.expect("-ERR EXEC without MULTI\r\n$0\r\n\r\n")
		}
		n.intercept(once(1, "EXEC", ""))
		c := r.connect()
		c.send("MULTI", "GET foo", "EXEC")
		c.expect(ok + queuedOK + "*1\r\n$0\r\n\r\n")
		// Half a reply cannot be mended.
		n.intercept(once(1, "EXEC", "*1\r\n$10\r\nabc"))
		c.send("MULTI", "GET foo", "EXEC")
		c.expect(ok + queuedOK + "*1\r\n$10\r\nabc")
		time.Sleep(time.Minute)
		c.expectClosed()
	})
}

// With WATCH in force a transaction cannot go on elsewhere: EXEC says Null, as if a watched
// key had changed, and the client begins again.
func TestWatchIsLost(t *testing.T) {
	const moved = "-MOVED 12182 node:1\r\n"
	for name, test := range map[string]struct{ command, reply string }{
		"MULTI":       {"MULTI", ""},
		"queue":       {"SET foo 1", ""},
		"EXEC":        {"EXEC", moved},
		"MOVED":       {"SET foo 1", moved},
		"MOVED later": {"INCR foo", moved},
		"aborted": {"EXEC",
			"-EXECABORT Transaction discarded because of: READONLY You can't write against a read only " +
				"replica.\r\n"},
		"second of WATCH": {"WATCH {foo}2", moved},
	} {
		for _, end := range []string{"EXEC", "DISCARD"} {
			t.Run(name+" "+end, func(t *testing.T) {
				inTxBubble(t, 3, Options{}, func(r *rig, n *txNodes) {
					n.intercept(once(1, test.command, test.reply))
					c := r.connect()
					for _, step := range [][2]string{
						{"WATCH foo", ok}, {"WATCH {foo}2", ok}, {"MULTI", ok}, {"SET foo 1", queuedOK},
						{"INCR foo", queuedOK},
						{end, map[string]string{"EXEC": nothing, "DISCARD": ok}[end]},
						{"GET foo", "$0\r\n\r\n"},
					} {
						c.send(step[0])
						if step[0] == end && end == test.command && test.reply == "" {
							break
						}
						c.expect(step[1])
					}
					c.send("WATCH foo", "MULTI", "SET foo 1", "EXEC")
					ran := end == "EXEC" || test.command != "EXEC"
					c.expect(ok + ok + queuedOK + map[bool]string{true: "*1\r\n" + ok, false: nothing}[ran])
				})
			})
		}
	}
	// Lost between commands, and given up by the client.
	inTxBubble(t, 3, Options{}, func(r *rig, n *txNodes) {
		n.intercept(once(1e6, "GET cut", ""))
		c := r.connect()
		c.send("WATCH foo", "WATCH cut")
		c.expect(ok + crosses)
		for s := range r.server.workers[0].sessions {
			r.server.workers[0].loop.Post(func() {
				s.tx.Lose(io.EOF)
				if !s.Transaction.Voided {
					r.Error("CLIENT LIST does not show that EXEC will be Null")
				}
			})
		}
		synctest.Wait()
		c.send("MULTI", "GET", "EXEC", "MULTI", "SET foo 1", "EXEC")
		c.expect(ok + queuedOK + nothing + ok + queuedOK + "*1\r\n" + ok)
	})
}

// Keys are watched at a node that imports their slot: EXEC is run there only if it has all of them.
func TestWatchAtAnImportingNode(t *testing.T) {
	inTxBubble(t, 3, Options{}, func(r *rig, n *txNodes) {
		n.intercept(once(1, "WATCH foo {foo}3", "-ASK 12182 node:1\r\n"))
		c := r.connect()
		c.send("WATCH foo {foo}3", "WATCH {foo}4", "MULTI", "SET {foo}2 1", "EXEC", "MULTI",
			"SET foo 1", "EXEC")
		c.expect(ok + ok + ok + queuedOK + "*1\r\n" + ok + ok + queuedOK + "*1\r\n" + ok)
		wantSeen(r, n, "3: WATCH foo {foo}3, 1: ASKING, 1: WATCH foo {foo}3, 1: ASKING, 1: WATCH {foo}4, "+
			"1: ASKING, 1: MULTI, 1: EXISTS foo {foo}3 {foo}4, 1: SET {foo}2 1, 1: EXEC, 3: MULTI, 3: SET "+
			"foo 1, 3: EXEC")
		n.intercept(func(node int, command string) (string, bool) {
			switch command {
			case "WATCH foo":
				return "-ASK 12182 node:2\r\n", node == 2
			case "EXEC":
				return "-TRYAGAIN Multiple keys request during rehashing of slot\r\n", false
			}
			return "", true
		})
		c.send("WATCH foo", "MULTI", "CLIENT GETNAME", "SET {foo}2 1", "EXEC")
		c.expect(ok + ok + queuedOK + queuedOK + nothing)
	})
}

// When no node takes the transaction in time the client hears why, and nothing has run.
func TestTransactionGivesUp(t *testing.T) {
	o := Options{Pipes: pipe.Options{Budget: 2 * time.Second}}
	const down = "-CLUSTERDOWN The cluster is down\r\n"
	inTxBubble(t, 3, o, func(r *rig, n *txNodes) {
		for name, test := range map[string]struct{ command, reply, want string }{
			"queue": {"INCR foo", down, ok + queuedOK + down + aborts},
			"EXEC": {"EXEC", down, ok + queuedOK + queuedOK +
				"-EXECABORT Transaction discarded because of: CLUSTERDOWN The cluster is down\r\n"},
			"MOVED": {"INCR foo", "-MOVED 12182 node:1\r\n",
				ok + queuedOK +
					"-TRYAGAIN no node took it in time: the command was not run: its slot moves\r\n" +
					aborts},
		} {
			n.intercept(once(1e6, test.command, test.reply))
			c, start := r.connect(), time.Now()
			c.send("MULTI", "SET foo 1", "INCR foo", "EXEC")
			c.expect(test.want)
			if took := time.Since(start); took > 3*time.Second || took < 2*time.Second {
				r.Errorf("%s: it took %v", name, took)
			}
			n.intercept(once(0, "", ""))
			c.send("MULTI", "GET foo", "EXEC")
			c.expect(ok + queuedOK + "*1\r\n$0\r\n\r\n")
		}
		n.intercept(once(1e6, "WATCH foo", down))
		c := r.connect()
		c.send("WATCH foo", "MULTI", "GET foo", "EXEC")
		c.expect(down + ok + queuedOK + "*1\r\n$0\r\n\r\n")
		wantRan(r, n, strings.TrimSuffix(strings.Repeat("3: GET foo, ", 4), ", "))
	})
}

// A node that refuses MULTI is not sent what the client has queued, or the client is told that it
// may have run.
func TestMultiFails(t *testing.T) {
	inTxBubble(t, 3, Options{}, func(r *rig, n *txNodes) {
		const no, perhaps = "-NOPERM no\r\n",
			"-ERR the commands behind MULTI may or may not have run, for it failed: NOPERM no\r\n"
		n.intercept(once(1, "MULTI", no))
		c := r.connect()
		c.send("MULTI", "SET foo 1", "INCR foo", "EXEC", "MULTI", "GET foo", "EXEC")
		c.expect(ok + no + no + aborts + ok + queuedOK + "*1\r\n$0\r\n\r\n")
		n.intercept(once(1, "MULTI", no))
		c.send("MULTI", "SET foo 1", "INCR foo", "EXEC", "MULTI", "GET foo", "EXEC")
		c.expect(ok + perhaps + perhaps + perhaps + ok + queuedOK + "*1\r\n$")
	})
}

// Without a free place for a connection of its own a transaction waits, and gives up.
func TestTransactionHasNoPlace(t *testing.T) {
	o := Options{Pipes: pipe.Options{Budget: 2 * time.Second, MaxOwn: 1}}
	inTxBubble(t, 3, o, func(r *rig, n *txNodes) {
		a, b := r.connect(), r.connect()
		a.send("WATCH foo")
		a.expect(ok)
		b.send("MULTI", "SET foo 1", "EXEC")
		b.expect(ok)
		b.expectError("not run: all connections that are not shared are in use")
		b.expect(aborts)
		b.send("MULTI", "SET foo 1", "EXEC")
		synctest.Wait()
		a.send("UNWATCH")
		a.expect(ok)
		b.expect(ok + queuedOK + "*1\r\n" + ok)
	})
}

// A topology that shows another master for the slot is followed before EXEC.
func TestTopologyChangesInATransaction(t *testing.T) {
	inTxBubble(t, 3, Options{}, func(r *rig, n *txNodes) {
		plain, watching := r.connect(), r.connect()
		plain.send("MULTI", "SET foo 1")
		plain.expect(ok + queuedOK)
		watching.send("WATCH foo", "MULTI", "PING")
		watching.expect(ok + ok + queuedOK)
		next := *r.topology
		next.Version++
		next.Slots[12182] = next.Masters[0]
		w := r.server.workers[0]
		w.loop.Post(func() { r.topology = &next; w.pool.Update() })
		synctest.Wait()
		plain.send("EXEC")
		plain.expect("*1\r\n" + ok)
		watching.send("EXEC")
		watching.expect(nothing)
		wantRan(r, n, "1: SET foo 1")
	})
}

// A cluster of one master gets a second one while a key is watched.
func TestMastersChangeBehindWatch(t *testing.T) {
	for _, key := range []string{"foo", "bar"} {
		inTxBubble(t, 1, Options{}, func(r *rig, n *txNodes) {
			c := r.connect()
			c.send("WATCH "+key, "MULTI")
			c.expect(ok + ok)
			next := *r.topology
			next.Version++
			next.Masters = []*cluster.Node{r.topology.Masters[0], {Addr: "node:2", Master: true}}
			for slot := 8192; slot < len(next.Slots); slot++ {
				next.Slots[slot] = next.Masters[1]
			}
			w := r.server.workers[0]
			w.loop.Post(func() { r.topology = &next; w.pool.Update() })
			synctest.Wait()
			c.send("SET "+key+" 1", "SET {"+key+"}2 1", "EXEC", "GET "+key)
			c.expect(queuedOK + queuedOK +
				map[string]string{"foo": nothing, "bar": "*2\r\n+OK\r\n+OK\r\n"}[key] + "$")
			c.r.ReadString('\n')
			c.r.ReadString('\n')
			// And back to one.
			c.send("WATCH " + key)
			c.expect(ok)
			last := *r.topology
			last.Version += 2
			last.Masters = last.Masters[:1]
			for slot := range last.Slots {
				last.Slots[slot] = last.Masters[0]
			}
			w.loop.Post(func() { r.topology = &last; w.pool.Update() })
			synctest.Wait()
			c.send("WATCH other", "MULTI", "SET "+key+" 2", "EXEC")
			c.expect(ok + ok + queuedOK + map[string]string{"foo": nothing, "bar": "*1\r\n" + ok}[key])
		})
	}
}

// DISCARD and UNWATCH are right whatever becomes of the node.
func TestDiscardOfALostTransaction(t *testing.T) {
	inTxBubble(t, 3, Options{}, func(r *rig, n *txNodes) {
		for _, lines := range []string{"MULTI/SET foo 1/DISCARD", "WATCH foo/MULTI/SET foo 1/DISCARD",
			"MULTI/SET foo 1/SET bar 1/EXEC", "WATCH foo/MULTI/DISCARD", "WATCH foo/UNWATCH"} {
			for _, cut := range []string{"MULTI", "SET foo 1", "DISCARD", "UNWATCH"} {
				n.intercept(once(1e6, cut, ""))
				c, start := r.connect(), time.Now()
				fails := (cut == "SET foo 1" || cut == "MULTI") && !strings.Contains(lines, "WATCH")
				for line := range strings.SplitSeq(lines, "/") {
					want := map[byte]string{'S': queuedOK, 'E': aborts}[line[0]]
					switch {
					case line == "SET bar 1" && !fails:
						want = crosses
					case line == "SET foo 1" && fails:
						want = "" // an error, when the budget is used up
					case line[0] != 'S' && line[0] != 'E':
						want = ok
					}
					c.send(line)
					if want != "" {
						c.expect(want)
						continue
					}
					c.expectError("the command was not run")
					start = time.Now()
				}
				if took := time.Since(start); took > time.Second {
					r.Errorf("%s, %s cut: %v", lines, cut, took)
				}
				if got := n.connections(); got > 1 {
					r.Errorf("%s, %s cut: %d connections", lines, cut, got)
				}
			}
		}
		wantRan(r, n, "")
	})
}
