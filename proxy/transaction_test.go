package proxy

import (
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"lockproxy/internal/resp"
)

const (
	ok       = "+OK\r\n"
	queuedOK = "+QUEUED\r\n"
	aborts   = "-EXECABORT Transaction discarded because of previous errors.\r\n"
	crosses  = "-CROSSSLOT Keys in request don't hash to the same slot\r\n"
	nothing  = "*-1\r\n"
	ran2     = "*2\r\n+OK\r\n:2\r\n"
)

func shaOf(script string) string {
	sum := sha1.Sum([]byte(script))
	return hex.EncodeToString(sum[:])
}

// wantSeen compares what the nodes were sent.
func wantSeen(r *rig, n *txNodes, want string) {
	r.Helper()
	if got := n.seen(); got != want {
		r.Errorf("the nodes saw %s\nwant %s", got, want)
	}
}

func wantRan(r *rig, n *txNodes, want string) {
	r.Helper()
	if got := n.executed(); got != want {
		r.Errorf("the nodes ran %s\nwant %s", got, want)
	}
}

// A whole transaction in one write, with commands around it: each is run in its turn.
func TestTransactionInAPipeline(t *testing.T) {
	inTxBubble(t, 3, Options{}, func(r *rig, n *txNodes) {
		c := r.connect()
		c.send("SET foo 0", "GET bar", "MULTI", "SET foo 1", "INCR foo", "EXEC", "GET foo", "WATCH bar",
			"SET bar 1", "MULTI", "GET bar", "EXEC", "GET bar")
		c.expect(ok + "$0\r\n\r\n" + ok + queuedOK + queuedOK + ran2 + "$1\r\n2\r\n" +
			ok + ok + ok + queuedOK + nothing + "$1\r\n1\r\n")
		got, want := n.executed(), ", 3: SET foo 1, 3: INCR foo, 3: GET foo, 1: SET bar 1, 1: GET bar"
		if !strings.HasSuffix(got, want) || strings.Count(got, ",") != 6 {
			r.Errorf("ran %s, want two more before %s", got, want)
		}
		if got := n.connections(); got != 2 {
			r.Errorf("%d connections, want one for each of the two nodes", got)
		}
		// They are used again, and closed when nobody has needed them for a while.
		c.send("MULTI", "SET foo 1", "EXEC", "MULTI", "SET bar 1", "EXEC", "MULTI", "DISCARD", "WATCH bar",
			"UNWATCH")
		c.expect(ok + queuedOK + "*1\r\n" + ok + ok + queuedOK + "*1\r\n" + ok + ok + ok + ok + ok)
		if got := n.connections(); got != 2 {
			r.Errorf("%d connections after more transactions", got)
		}
		time.Sleep(time.Minute)
		if got := n.connections(); got != 0 {
			r.Errorf("%d connections are left", got)
		}
	})
}

// What a client sent before MULTI is done before EXEC runs, and what it sent before WATCH before
// that; what it sent after WATCH comes after it.
func TestTransactionOrder(t *testing.T) {
	inTxBubble(t, 3, Options{}, func(r *rig, n *txNodes) {
		slow := make(chan struct{})
		hold := func(command string) {
			n.intercept(func(_ int, got string) (string, bool) {
				if got == command {
					n.mu.Unlock()
					<-slow
					n.mu.Lock()
				}
				return "", true
			})
		}
		for _, test := range []struct{ held, want string }{
			{"SET bar 1", "1: SET bar 1"},
			{"WATCH foo", "1: SET bar 1, 3: WATCH foo"},
			{"EXEC", "1: SET bar 1, 3: WATCH foo, 3: SET foo 2, 3: MULTI, 3: GET foo, 3: EXEC"},
		} {
			c := r.connect()
			hold(test.held)
			r.mu.Lock()
			r.seen = nil
			r.mu.Unlock()
			c.send("SET bar 1", "WATCH foo", "SET foo 2", "MULTI", "GET foo", "EXEC", "SET foo 3")
			wantSeen(r, n, test.want)
			slow <- struct{}{}
			c.expect(ok + ok + ok + ok + queuedOK + nothing + ok)
		}
	})
}

// A client that goes leaves no connection behind, in whichever state.
func TestClientGoesInATransaction(t *testing.T) {
	for _, lines := range []string{
		"WATCH foo", "WATCH foo/MULTI", "MULTI/SET foo 1", "WATCH foo/MULTI/SET foo 1",
		"MULTI/PING/SET foo 1",
		"MULTI/SET foo slow", "WATCH slow", "MULTI/SET foo moved", "MULTI/SET foo 1/GET {foo}slow/EXEC",
		"MULTI/SET foo loading",
		"WATCH foo/GET slow",
	} {
		t.Run(lines, func(t *testing.T) {
			inTxBubble(t, 3, Options{}, func(r *rig, n *txNodes) {
				n.intercept(func(_ int, command string) (string, bool) {
					switch {
					case strings.Contains(command, "slow"):
						return "-", false
					case strings.Contains(command, "moved"):
						return "-MOVED 12182 node:9\r\n", false
					case strings.Contains(command, "loading"):
						return "-LOADING Redis is loading the dataset in memory\r\n", false
					}
					return "", true
				})
				c := r.connect()
				c.send(strings.Split(lines, "/")...)
				synctest.Wait()
				c.Close()
				if got := n.connections(); got != 0 && !strings.Contains(lines, "PING") &&
					lines != "WATCH slow" {
					r.Errorf("%d connections are left", got)
				}
				time.Sleep(time.Minute)
				if got := n.connections(); got != 0 {
					r.Errorf("%d connections are left after a while", got)
				}
				if strings.Contains(lines, "foo 1") && n.executed() != "" {
					r.Errorf("ran %s", n.executed())
				}
			})
		})
	}
}

// A client may go while its node executes what it queued: what the proxy was to do then is left,
// what all masters run is run.
func TestClientGoesBeforeExecIsAnswered(t *testing.T) {
	for _, queued := range []string{"CLIENT SETNAME me", "CLIENT SETNAME me/SCRIPT LOAD x/INFO", "FLUSHALL",
		"CLIENT ID/FLUSHALL/CLIENT ID"} {
		t.Run(queued, func(t *testing.T) {
			inTxBubble(t, 3, Options{}, func(r *rig, n *txNodes) {
				n.intercept(func(_ int, command string) (string, bool) {
					if command == "EXEC" { // for less than makes the proxy ask the node what it does
						time.Sleep(400 * time.Millisecond)
					}
					return "", true
				})
				c := r.connect()
				c.send(strings.Split("MULTI/SET foo 1/"+queued+"/EXEC", "/")...)
				synctest.Wait()
				c.Close()
				time.Sleep(2 * time.Second)
				if ran := n.executed(); strings.Count(ran, "SET foo 1") != 1 ||
					strings.Contains(queued, "FLUSHALL") && strings.Count(r.commands(), "FLUSHALL") != 3 {
					r.Errorf("ran %s of %s", ran, r.commands())
				}
				c = r.connect()
				c.send("PING", "CLIENT LIST")
				c.expect("+PONG\r\n")
				if line, _ := c.r.ReadString('='); line == "" {
					r.Error("no reply to CLIENT LIST")
				}
			})
		})
	}
}

// What no transaction can have: keys of two slots, locks, what goes from master to master.
func TestRefusedInATransaction(t *testing.T) {
	inTxBubble(t, 3, Options{}, func(r *rig, n *txNodes) {
		c := r.connect()
		for line, reply := range map[string]string{
			"SET bar 1":      crosses,
			"MGET foo bar":   crosses,
			"MSET foo 1 k 2": crosses,
			"LOCK job": "-ERR LOCK is not available through lockproxy inside a transaction: " +
				"send it before MULTI or after EXEC\r\n",
			"UNLOCK": "-ERR UNLOCK is not available through lockproxy inside a transaction: " +
				"send it before MULTI or after EXEC\r\n",
			"SCAN 0": "-ERR SCAN is not available through lockproxy inside a transaction " +
				"in front of several masters: a transaction runs on one of them\r\n",
			"HELLO 3": otherProtocolReply,
			"NOSUCH":  "-ERR unknown command 'NOSUCH', with args beginning with: \r\n",
			"GET":     noKey,
		} {
			c.send("MULTI", "SET foo 1", line, "INCR foo", "EXEC", "EXEC")
			c.expect(ok + queuedOK + reply + queuedOK + aborts + noExecReply)
			if line == "SET bar 1" {
				continue
			}
			c.send("MULTI", line)
			c.expect(ok + reply)
			c.send("SET foo 1", "DISCARD")
			c.expect(queuedOK + ok)
			c.send("MULTI", line, "EXEC")
			c.expect(ok + reply + aborts)
		}
		c.send("WATCH foo bar", "WATCH foo", "WATCH bar", "MULTI", "SET bar 1", "EXEC")
		c.expect(crosses + ok + crosses + ok + crosses + aborts)
		c.send("MULTI", "MULTI", "WATCH bar", "SET foo 1", "EXEC")
		c.expect(ok + nestedMultiReply + watchInMultiReply + queuedOK + "*1\r\n" + ok)
		wantRan(r, n, "3: SET foo 1")
	})
}

// A key of another node than the one that was asked first, for want of a key, takes the transaction there.
// What was wrong stays wrong.
func TestTransactionFindsItsNode(t *testing.T) {
	inTxBubble(t, 3, Options{}, func(r *rig, n *txNodes) {
		for i, key := range []string{"foo", "bar", "k"} {
			c := r.connect()
			c.send("MULTI", "PING", "SET "+key+" 1", "EXEC")
			c.expect(ok + queuedOK + queuedOK + "*2\r\n+PONG\r\n" + ok)
			c.send("MULTI", "GET")
			c.expect(ok + noKey)
			c.send("SET "+key+" 2", "EXEC", "MULTI", "PING")
			c.expect(queuedOK + aborts + ok + queuedOK)
			c.send("SET "+key+" 3", "EXEC")
			c.expect(queuedOK + "*2\r\n+PONG\r\n" + ok)
			node := []int{3, 1, 2}[i]
			if want := fmt.Sprintf("%d: PING, %d: SET %s 1, %d: PING, %d: SET %s 3", node, node,
				key, node, node,
				key); !strings.HasSuffix(n.executed(), want) {
				r.Errorf("ran %s, want %s at the end", n.executed(), want)
			}
		}
		if got := n.connections(); got > 6 {
			r.Errorf("%d connections", got)
		}
	})
}

// Commands that the proxy runs itself run with EXEC, and their replies stand in their places.
func TestQueuedForTheProxy(t *testing.T) {
	for _, masters := range []int{1, 3} {
		inTxBubble(t, masters, Options{}, func(r *rig, n *txNodes) {
			c := r.connect()
			c.send("MULTI", "CLIENT SETNAME x", "SET foo 1", "CLIENT GETNAME", "CLIENT NOSUCH")
			c.expect(ok + queuedOK + queuedOK + queuedOK + queuedOK)
			c.send("DISCARD", "CLIENT GETNAME")
			c.expect(ok + "$-1\r\n")
			c.send("MULTI", "CLIENT GETNAME", "CLIENT SETNAME x", "SET foo 1", "CLIENT GETNAME", "INCR foo",
				"SCRIPT EXISTS x", "EXEC", "CLIENT GETNAME")
			c.expect(ok + strings.Repeat(queuedOK, 6) +
				"*6\r\n$-1\r\n+OK\r\n+OK\r\n$1\r\nx\r\n:2\r\n*1\r\n:0\r\n$1\r\nx\r\n")
			c.send("MULTI", "CLIENT SETNAME y", "EXEC", "CLIENT GETNAME")
			c.expect(ok + queuedOK + "*1\r\n+OK\r\n$1\r\ny\r\n")
			c.send("WATCH foo", "SET foo 3", "MULTI", "CLIENT SETNAME z", "EXEC", "CLIENT GETNAME")
			c.expect(ok + ok + ok + queuedOK + nothing + "$1\r\ny\r\n")
			c.send("MULTI", "SELECT 0", "CLIENT SETNAME z", "SELECT 5", "EXEC")
			c.expect(ok + queuedOK + queuedOK + queuedOK + "*3\r\n+OK\r\n+OK\r\n+OK\r\n")
			synctest.Wait()
			for s := range r.server.workers[0].sessions {
				if s.DB != 5 {
					r.Errorf("database %d", s.DB)
				}
			}
		})
	}
}

// RESET and QUIT end a transaction.
func TestResetEndsATransaction(t *testing.T) {
	inTxBubble(t, 3, Options{}, func(r *rig, n *txNodes) {
		c := r.connect()
		c.send("MULTI", "SET foo 1", "RESET", "EXEC", "WATCH foo", "SET foo 1", "RESET", "MULTI",
			"GET foo", "EXEC")
		c.expect(ok + queuedOK + "+RESET\r\n" + noExecReply + ok + ok + "+RESET\r\n" + ok + queuedOK +
			"*1\r\n$1\r\n1\r\n")
		c.send("MULTI", "SET foo 2", "QUIT", "EXEC")
		c.expect(ok + queuedOK + ok)
		c.expectClosed()
		wantRan(r, n, "3: SET foo 1, 3: GET foo")
	})
}

// The commands that wait for EXEC are bounded.
func TestLongTransaction(t *testing.T) {
	o := Options{Settings: Settings{Limits: resp.Limits{Command: 4 << 10}}}
	inTxBubble(t, 1, o, func(r *rig, n *txNodes) {
		c := r.connect()
		value := strings.Repeat("x", 1000)
		c.send("MULTI", "SET foo "+value, "SET foo "+value, "SET foo "+value, "SET foo "+value, "EXEC")
		c.expect(ok + queuedOK + queuedOK + queuedOK +
			"-ERR the transaction is longer than client-query-buffer-limit\r\n" + aborts)
		c.send("MULTI", "SET foo 1", "EXEC")
		c.expect(ok + queuedOK + "*1\r\n" + ok)
	})
}

// A node that lost a script is given it before EXEC.
func TestScriptInATransaction(t *testing.T) {
	inTxBubble(t, 3, Options{}, func(r *rig, n *txNodes) {
		r.server.shared.Scripts.Add([]byte("script"))
		sha := shaOf("script")
		c := r.connect()
		run := "EVALSHA " + sha + " 1 foo"
		for range 2 {
			c.send("MULTI", run, run, "EVALSHA "+shaOf("unknown")+" 1 foo", "EXEC")
			c.expect(ok + queuedOK + queuedOK + queuedOK +
				"*3\r\n+ran\r\n+ran\r\n-NOSCRIPT No matching script. Please use EVAL.\r\n")
		}
		if seen := n.seen(); strings.Count(seen, "3: SCRIPT EXISTS "+sha) != 2 ||
			strings.Count(seen, "3: SCRIPT LOAD script") != 1 {
			r.Errorf("the nodes saw %s", seen)
		}
	})
}

// A script without keys runs at the node of the transaction, not at that of the key that it names.
func TestScriptWithoutKeysInATransaction(t *testing.T) {
	inTxBubble(t, 3, Options{}, func(r *rig, n *txNodes) {
		c := r.connect()
		c.send("MULTI", "SET foo 1", "EVAL redis.call('GET','bar') 0", "EXEC")
		synctest.Wait()
		c.Close() // whatever EVAL has come to
		if seen := n.seen(); !strings.Contains(seen, "3: EVAL") || strings.Contains(seen, "1: ") {
			r.Errorf("the nodes saw %s", seen)
		}
	})
}

// The state that CLIENT LIST tells of.
func TestTransactionState(t *testing.T) {
	inTxBubble(t, 3, Options{}, func(r *rig, n *txNodes) {
		c := r.connect()
		want := func(multi int, writes bool) {
			r.Helper()
			synctest.Wait()
			for s := range r.server.workers[0].sessions {
				if s.Transaction.Multi() != multi || s.Transaction.Writes != writes {
					r.Errorf("%+v, want %d queued, writes %v", s.Transaction, multi, writes)
				}
			}
		}
		want(-1, false)
		c.send("MULTI")
		c.expect(ok)
		want(0, false)
		c.send("GET foo", "CLIENT ID", "GET")
		c.expect(queuedOK + queuedOK + noKey)
		want(2, false)
		c.send("SET foo 1")
		c.expect(queuedOK)
		want(3, true)
		for s := range r.server.workers[0].sessions {
			if !s.Transaction.Dirty || s.Transaction.Bytes == 0 {
				r.Errorf("%+v", s.Transaction)
			}
		}
		c.send("EXEC")
		c.expect(aborts)
		want(-1, false)
	})
}

// What a client changes behind WATCH holds for MULTI; the connection is of nobody's use then.
func TestModeChangesBehindWatch(t *testing.T) {
	inTxBubble(t, 1, Options{}, func(r *rig, n *txNodes) {
		c := r.connect()
		c.send("WATCH foo")
		c.expect(ok)
		w := r.server.workers[0]
		w.loop.Post(func() {
			for s := range w.sessions {
				s.DB, s.Proto = 3, 3
			}
		})
		synctest.Wait()
		c.send("WATCH bar", "MULTI", "GET foo", "EXEC")
		c.expect(ok + ok + queuedOK + "*1\r\n$0\r\n\r\n")
		wantSeen(r, n, "1: WATCH foo, 1: HELLO 3, 1: SELECT 3, 1: WATCH bar, 1: MULTI, 1: GET foo, 1: EXEC")
		if got := n.connections(); got != 0 {
			r.Errorf("%d connections are left", got)
		}
		// What EXEC says by itself is RESP3 as well.
		n.intercept(once(1, "SET foo 1", ""))
		c.send("WATCH foo", "MULTI", "SET foo 1")
		c.expect(ok + ok + queuedOK)
		c.send("EXEC")
		c.expect("_\r\n")
	})
}
