package proxy

import (
	"errors"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"lockproxy/cluster"
)

// inDatabases is inBubble before one Redis, whose number is that of the database.
func inDatabases(t *testing.T, answer func(db int, command string) string, test func(r *rig)) {
	inBubble(t, 1, Options{}, answer, func(r *rig) {
		r.topology.Kind = cluster.Single
		r.as = func(_ int, m cluster.Mode, _ bool) (int, error) { return m.DB, nil }
		test(r)
	})
}

// What is pipelined behind a SELECT works on the database that it names, what was sent before on the other,
// and the replies are in order.
func TestSelectInAPipeline(t *testing.T) {
	inDatabases(t, echo, func(r *rig) {
		c, other := r.connect(), r.connect()
		c.send("GET a", "SELECT 9", "GET b", "SELECT 3", "GET c", "SELECT 9", "GET d", "RESET", "GET e")
		other.send("GET x")
		c.expect("+0 GET a\r\n+OK\r\n+9 GET b\r\n+OK\r\n+3 GET c\r\n+OK\r\n+9 GET d\r\n+RESET\r\n+0 GET " +
			"e\r\n")
		other.expect("+0 GET x\r\n")
		other.send("SELECT 9", "DBSIZE", "SCAN 0", "RANDOMKEY", "KEYS *", "FLUSHDB", "EVAL x 0")
		other.expect("+OK\r\n+9 DBSIZE\r\n+9 SCAN 0\r\n+9 RANDOMKEY\r\n")
		other.expect("-ERR the upstream answered in a form that lockproxy does not expect\r\n")
		other.expect("+9 FLUSHDB\r\n+9 EVAL x 0\r\n")
		if seen := r.commands(); strings.Count(seen, "SELECT") > 0 {
			r.Errorf("SELECT on a shared connection: %s", seen)
		}
	})
}

// A SELECT that cannot be decided yet waits, and with it what comes behind; the client may leave meanwhile.
func TestSelectWaits(t *testing.T) {
	inDatabases(t, echo, func(r *rig) {
		up := time.Now().Add(3 * time.Second)
		r.as = func(_ int, m cluster.Mode, _ bool) (int, error) {
			switch {
			case m.DB == 15:
				return 0, errors.New("DB 15 is out of reach")
			case time.Now().Before(up):
				return 0, errors.New("connection refused")
			}
			return m.DB, nil
		}
		c, leaver := r.connect(), r.connect()
		c.send("SELECT 9", "GET a")
		leaver.send("SELECT 9", "SET a 1")
		synctest.Wait()
		leaver.Close()
		c.expect("+OK\r\n+9 GET a\r\n")
		if took := time.Until(up); took > 0 || took < -time.Second {
			r.Errorf("the answer came %v before the upstream", took)
		}
		c.send("SELECT 15", "GET b")
		c.expect("-ERR no node took it in time: the command was not run: DB 15 is out of reach\r\n+9 GET " +
			"b\r\n")
	})
}

// Locks are in database 0, wherever the client is, and keep their place among its commands.
func TestLocksStayInDatabase0(t *testing.T) {
	var slow chan struct{} // made in the bubble
	answer := func(db int, command string) string {
		switch {
		case command == "SET a 1":
			<-slow
		case strings.HasPrefix(command, "EVALSHA"):
			return ":1\r\n"
		}
		return echo(db, command)
	}
	inDatabases(t, answer, func(r *rig) {
		slow = make(chan struct{})
		c := r.connect()
		c.send("SELECT 9", "UNLOCK job t", "GET a", "SET a 1", "UNLOCK job t", "SET b 2", "SET c 3")
		c.expect("+OK\r\n:1\r\n+9 GET a\r\n")
		synctest.Wait()
		if seen := r.commands(); strings.Count(seen, "EVALSHA") != 1 {
			r.Errorf("the unlock came before the write: %s", seen)
		}
		close(slow)
		c.expect("+9 SET a 1\r\n:1\r\n+9 SET b 2\r\n+9 SET c 3\r\n")
		unlock := regexp.MustCompile("EVALSHA[^,]*")
		want := "9: PING, 0: unlock, 9: GET a, 9: SET a 1, 9: PING, 0: unlock, 9: SET b 2, 9: SET c 3"
		if got := unlock.ReplaceAllString(r.commands(), "unlock"); got != want {
			r.Errorf("the upstream saw %s", got)
		}
	})
}
