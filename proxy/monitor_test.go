package proxy

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"lockproxy/proxy/memory"
)

// shown reads a line of MONITOR and returns what stands behind the address.
func (c *testClient) shown() string {
	c.Helper()
	c.SetReadDeadline(time.Now().Add(time.Minute))
	line, err := c.r.ReadString('\n')
	_, call, ok := strings.Cut(line, "[0 pipe] ")
	if !ok || !strings.HasPrefix(line, "+946684") || !strings.HasSuffix(call, "\r\n") {
		c.Fatalf("%q is no line of MONITOR (%v)", line, err)
	}
	return strings.TrimSuffix(call, "\r\n")
}

// Clients of each loop see the commands of all loops, the commands of one client in their order.
func TestMonitorOnManyLoops(t *testing.T) {
	inBubble(t, 1, Options{Loops: 3}, echo, func(r *rig) {
		r.likeRedis7()
		var monitors []*testClient
		for range 4 {
			m := r.connect()
			m.send("MONITOR")
			m.expect("+OK\r\n")
			monitors = append(monitors, m)
		}
		for i := range 6 {
			c := r.connect()
			c.send(fmt.Sprintf("SET k%d v", i), "CLIENT LIST", "SLOWLOG RESET", "AUTH pass", "NOSUCH", "GET",
				"LOCKCTL CHECK l token", `GET "`)
			synctest.Wait()
			for _, m := range monitors {
				for _, want := range []string{fmt.Sprintf(`"SET" "k%d" "v"`, i), `"AUTH" "(redacted)"`,
					`"LOCKCTL" "CHECK" "l" "(redacted)"`, `"GET" "\""`} {
					if got := m.shown(); got != want {
						t.Errorf("shown %s, want %s", got, want)
					}
				}
			}
			c.Close()
		}
		monitors[0].send("RESET", "GET k")
		monitors[0].expect("+RESET\r\n+1 GET k\r\n")
		monitors[1].Close()
		synctest.Wait() // other loops have the lines
		monitors[2].send("QUIT")
		if got := monitors[2].shown(); got != `"RESET"` {
			t.Errorf("shown %s", got)
		}
		if got := monitors[2].shown(); got != `"GET" "k"` {
			t.Errorf("shown %s", got)
		}
		monitors[2].expect("+OK\r\n")
		monitors[2].expectClosed()
		for _, want := range []string{`"RESET"`, `"GET" "k"`, `"QUIT"`} {
			if got := monitors[3].shown(); got != want {
				t.Errorf("shown %s, want %s", got, want)
			}
		}
		monitors[3].Close()
		synctest.Wait()
		for _, w := range r.server.workers {
			if w.alert() {
				t.Errorf("loop %d goes on watching", w.index)
			}
		}
	})
}

// What a client in MONITOR does itself comes behind the reply to it, and never inside one.
func TestMonitorSeesItself(t *testing.T) {
	inBubble(t, 1, Options{}, echo, func(r *rig) {
		r.likeRedis7()
		m := r.connect()
		m.send("MONITOR")
		m.expect("+OK\r\n")
		m.send("PING", "MONITOR", "GET k", "LOCK l", "ECHO x")
		m.expect("+PONG\r\n-ERR Replica can't interact with the keyspace\r\n-ERR Replica can't interact " +
			"with the keyspace\r\n$1\r\nx\r\n")
		for _, want := range []string{`"PING"`, `"ECHO" "x"`} {
			if got := m.shown(); got != want {
				t.Errorf("shown %s, want %s", got, want)
			}
		}
		m.send("HELLO 3", "CLIENT REPLY OFF")
		synctest.Wait()
		c := r.connect()
		c.send("GET unseen")
		c.expect("+1 GET unseen\r\n")
		m.send("CLIENT REPLY ON")
		synctest.Wait()
		c.send("GET seen")
		var all strings.Builder
		for !strings.Contains(all.String(), `"GET" "seen"`) {
			line, err := m.r.ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			all.WriteString(line)
		}
		if got := all.String(); strings.Contains(got, "unseen") || !strings.Contains(got, "+OK\r\n") {
			t.Errorf("%q", got)
		}
	})
}

// What others do comes behind the reply to MONITOR, also when that waits for the reply to an earlier command.
func TestMonitorWaitsForItsReply(t *testing.T) {
	hold, late := holding("GET slow", echo)
	inBubble(t, 1, Options{}, late, func(r *rig) {
		hold.begin()
		all := r.connectAll(2)
		m, c := all[0], all[1]
		m.send("GET slow", "MONITOR")
		synctest.Wait()
		c.send("PING")
		c.expect("+PONG\r\n")
		hold.release()
		m.expect("+1 GET slow\r\n+OK\r\n")
		if got := m.shown(); got != `"PING"` {
			t.Errorf("shown %s", got)
		}
	})
}

// One that does not read what it is shown is closed, and the others go on.
func TestSlowMonitorIsClosed(t *testing.T) {
	o := Options{Settings: Settings{Output: memory.Limits{Normal: memory.Limit{Hard: 1 << 20}}}}
	inBubble(t, 1, o, echo, func(r *rig) {
		all := r.connectAll(2)
		slow, c := all[0], all[1]
		slow.send("MONITOR")
		slow.expect("+OK\r\n")
		for range 400 {
			c.send("ECHO " + strings.Repeat("x", 50_000))
			c.expect("$50000\r\n" + strings.Repeat("x", 50_000) + "\r\n")
		}
		synctest.Wait()
		c.send("CLIENT LIST")
		if got := ids(c.bulk()); got != "2" {
			t.Errorf("clients %s", got)
		}
	})
}

// What is put into a transaction is shown when EXEC runs it, and not when that runs nothing.
func TestMonitorAndTransactions(t *testing.T) {
	inBubble(t, 1, Options{}, echo, func(r *rig) {
		r.likeRedis7()
		all := r.connectAll(2)
		m, c := all[0], all[1]
		m.send("MONITOR")
		m.expect("+OK\r\n")
		c.send("PING")
		c.expect("+PONG\r\n")
		w := r.server.workers[0]
		call := func(dirty bool, lines ...string) {
			w.loop.Post(func() {
				s := r.sessionOf(2)
				open := false
				for _, line := range lines {
					var args [][]byte
					for _, word := range strings.Fields(line) {
						args = append(args, []byte(word))
					}
					cmd, _ := w.table.Resolve(args)
					s.monitor.Observe(cmd, args, open && dirty)
					s.Transaction.Open = line != "EXEC" && line != "DISCARD"
					open = true
				}
			})
		}
		call(false, "MULTI", "SET a 1", "INCR b", "EXEC", "MULTI", "SET c 1", "DISCARD")
		call(true, "MULTI", "SET d 1", "EXEC")
		call(false, "MULTI", "WATCH x", "SET e 1", "EXEC")
		for _, want := range []string{
			`"PING"`, `"MULTI"`, `"SET" "a" "1"`, `"INCR" "b"`, `"EXEC"`, `"MULTI"`, `"DISCARD"`,
			`"MULTI"`, `"EXEC"`,
			`"MULTI"`, `"WATCH" "x"`, `"SET" "e" "1"`, `"EXEC"`,
		} {
			if got := m.shown(); got != want {
				t.Errorf("shown %s, want %s", got, want)
			}
		}
	})
}
