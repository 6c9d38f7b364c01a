package proxy

import (
	"strings"
	"testing"
)

// What all masters are to run has its place in the transaction at the node of its keys, and runs at the
// others behind it, in the same order.
func TestQueuedForAllMasters(t *testing.T) {
	inTxBubble(t, 3, Options{}, func(r *rig, n *txNodes) {
		c := r.connect()
		c.send("MULTI", "FLUSHALL", "SET foo 1", "FUNCTION FLUSH", "EXEC")
		c.expect(ok + queuedOK + queuedOK + queuedOK + "*3\r\n+OK\r\n+OK\r\n+OK\r\n")
		ran := n.executed()
		if !strings.HasPrefix(ran, "3: FLUSHALL, 3: SET foo 1, 3: FUNCTION FLUSH, ") ||
			strings.Count(ran, "3: ") != 3 {
			t.Errorf("ran %s", ran)
		}
		for _, node := range []string{"1", "2"} {
			flush := strings.Index(ran, node+": FLUSHALL")
			function := strings.Index(ran, node+": FUNCTION FLUSH")
			if flush < 0 || function < flush {
				t.Errorf("ran %s", ran)
			}
		}
	})
}

// Their replies become one, in their place; one that the node itself refuses goes no further.
func TestMergedInATransaction(t *testing.T) {
	inTxBubble(t, 3, Options{}, func(r *rig, n *txNodes) {
		n.intercept(func(node int, command string) (string, bool) {
			switch {
			case command == "DBSIZE" && node != 3:
				return ":4\r\n", false
			case command == "FLUSHDB" && node == 2:
				return "-ERR not here\r\n", false
			case command == "EXEC" && node == 3:
				return "*4\r\n:3\r\n+OK\r\n-ERR no library\r\n+OK\r\n", false
			}
			return "", true
		})
		c := r.connect()
		c.send("MULTI", "DBSIZE", "SET foo 1", "FUNCTION LOAD x", "FLUSHDB", "EXEC", "PING")
		c.expect(ok + strings.Repeat(queuedOK, 4) +
			"*4\r\n:11\r\n+OK\r\n-ERR no library\r\n-ERR not here (this is the answer to a part of the " +
			"command: its other parts may have run)\r\n+PONG\r\n")
		if ran := n.executed(); strings.Contains(ran, "FUNCTION") {
			t.Errorf("ran %s", ran)
		}
	})
}

// Nothing goes to the other masters when EXEC runs nothing.
func TestNotForAllMasters(t *testing.T) {
	inTxBubble(t, 3, Options{}, func(r *rig, n *txNodes) {
		c := r.connect()
		c.send("WATCH foo", "SET foo 1", "MULTI", "FLUSHALL", "EXEC", "MULTI", "FLUSHALL", "DISCARD", "MULTI",
			"FLUSHALL", "GET", "EXEC")
		c.expect(ok + ok + ok + queuedOK + nothing + ok + queuedOK + ok + ok + queuedOK + noKey + aborts)
		wantRan(r, n, "3: SET foo 1")
	})
}

// Who leaves behind EXEC leaves no master out.
func TestLeftBehindExec(t *testing.T) {
	inTxBubble(t, 3, Options{}, func(r *rig, n *txNodes) {
		c := r.connect()
		n.intercept(func(_ int, command string) (string, bool) {
			if command == "EXEC" {
				c.Close()
			}
			return "", true
		})
		c.send("MULTI", "FLUSHALL", "FLUSHDB", "EXEC")
		if ran := n.executed(); strings.Count(ran, "FLUSHALL") != 3 || strings.Count(ran, "FLUSHDB") != 3 {
			t.Errorf("ran %s", ran)
		}
	})
}
