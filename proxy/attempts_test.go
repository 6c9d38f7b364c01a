package proxy

import (
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"lockproxy/cluster"
)

const wrongPass = "-WRONGPASS invalid username-password pair or user is disabled.\r\n"

// TestGuessesAreSlow proves that wrong passwords cost their connection and their address a growing, bounded
// time and nobody else any, that a right one still gets in, and that the log is short and shows no password.
func TestGuessesAreSlow(t *testing.T) {
	var out textLog
	o := Options{Password: "the-right-one", Log: slog.New(slog.NewTextHandler(&out, nil))}
	inBubble(t, 1, o, echo, func(r *rig) {
		other := r.connect()
		other.tell("+OK\r\n", "AUTH the-right-one")
		c := r.connect()
		began := time.Now()
		for range 8 {
			c.send("AUTH hunter2", "HELLO 3 AUTH default hunter3")
		}
		served := time.Now()
		other.tell("+1 GET k\r\n", "GET k")
		if took := time.Since(served); took > 0 {
			t.Errorf("another client of the loop waited for %v", took)
		}
		c.expect(wrongPass + wrongPass)
		if took := time.Since(began); took < firstLoginPause {
			t.Errorf("the second guess is answered after %v", took)
		}
		c.expect(strings.Repeat(wrongPass, 14))
		if took := time.Since(began); took < 40*time.Second || took > 60*time.Second {
			t.Errorf("16 guesses took %v", took)
		}
		right := time.Now()
		c.tell("+OK\r\n", "AUTH the-right-one")
		if took := time.Since(right); took > maxLoginPause {
			t.Errorf("the right password took %v", took)
		}
		c.send("AUTH hunter4", "AUTH the-right-one") // what was right makes good what was wrong
		right = time.Now()
		c.expect(wrongPass + "+OK\r\n")
		if took := time.Since(right); took > firstLoginPause {
			t.Errorf("after one wrong password the right one took %v", took)
		}

		// A flood of connections has its address wait, for a bounded time.
		for range 3 {
			var flood []*testClient
			for range 300 {
				c := r.connect()
				c.send("AUTH hunter5")
				flood = append(flood, c)
			}
			for _, c := range flood {
				c.expect(wrongPass)
				c.Close()
			}
		}
		right = time.Now()
		r.connect().tell("+OK\r\n", "AUTH the-right-one")
		if took := time.Since(right); took < time.Second || took > maxAddressPause {
			t.Errorf("another connection of a guessing address gets in after %v", took)
		}
		time.Sleep(30 * time.Second)
		right = time.Now()
		r.connect().tell("+OK\r\n", "AUTH the-right-one")
		if took := time.Since(right); took > 0 {
			t.Errorf("half a minute later it waits for %v", took)
		}
		const wrong = 8*2 + 1 + 3*300
		if n := r.server.Stats().AuthFailures["password"]; n != wrong {
			t.Errorf("%d failures are counted, want %d", n, wrong)
		}
		lines := strings.Count(out.String(), "\n")
		if lines < 2 || lines > int(time.Since(began)/failureLogEvery)+2 || strings.Contains(out.String(), "hunter") {
			t.Errorf("log of %v:\n%s", time.Since(began), &out)
		}
		if !strings.Contains(out.String(), `msg="authentication failed" client=pipe user=default`) {
			t.Errorf("log:\n%s", &out)
		}
	})
}

// TestGuessesInATransaction proves that EXEC tries no second password behind a wrong one.
func TestGuessesInATransaction(t *testing.T) {
	inTxBubble(t, 1, Options{Password: "secret"}, func(r *rig, n *txNodes) {
		c := r.connect()
		c.tell(ok, "AUTH secret")
		c.send("MULTI", "SET foo 1", "AUTH x", "AUTH y", "HELLO 2 AUTH default secret", "EXEC")
		tooSoon := string(errLoginTooSoon)
		c.expect(ok + strings.Repeat(queuedOK, 4) + "*4\r\n" + ok + wrongPass + tooSoon + tooSoon)
		if n := r.server.Stats().AuthFailures["password"]; n != 1 {
			t.Errorf("%d passwords were tried", n)
		}
		began := time.Now()
		c.tell(ok, "AUTH secret")
		if took := time.Since(began); took != firstLoginPause {
			t.Errorf("the right password behind EXEC took %v", took)
		}
	})
}

// TestWaitingGuessEnds proves that who waits for his next guess is let go when he goes, and when the proxy
// drains.
func TestWaitingGuessEnds(t *testing.T) {
	inBubble(t, 1, Options{Password: "secret"}, echo, func(r *rig) {
		gone, waits := r.connect(), r.connect()
		for _, c := range []*testClient{gone, waits} {
			for range 5 {
				c.tell(wrongPass, "AUTH x")
			}
			c.send("AUTH x")
		}
		synctest.Wait()
		gone.Close()
		synctest.Wait()
		if n := r.server.clients.Load(); n != 1 {
			t.Errorf("%d clients", n)
		}
		began := time.Now()
		r.readOn()
		if err := r.server.Drain(r.Context()); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took > time.Second {
			t.Errorf("drain took %v", took)
		}
	})
}

// TestLoginsAtTheUpstreamAreFew proves that guesses at users of the upstream use few connections to it at a
// time, and that each gets its answer.
func TestLoginsAtTheUpstreamAreFew(t *testing.T) {
	var now, most, all atomic.Int32
	node := usersNode(everything)
	inUsersBubble(t, 1, func(n int, command string) string {
		if n > ownNode && strings.HasPrefix(command, "HELLO") {
			time.Sleep(10 * time.Millisecond)
			now.Add(-1) // the connection ends with that
			return wrongPass
		}
		return node(n, command)
	}, func(r *rig) {
		r.node = func(node int, m cluster.DialMode, _ bool, here, there net.Conn) (net.Conn, error) {
			go func() { // ends with the connection
				if m.As != nil {
					all.Add(1)
					for n, m := now.Add(1), most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
					}
				}
				r.serve(node, there)
			}()
			return here, nil
		}
		const clients = 100
		var guessers []*testClient
		for i := range clients {
			c := r.connect()
			c.send(fmt.Sprintf("AUTH alice %d", i))
			guessers = append(guessers, c)
		}
		began := time.Now()
		for i, c := range guessers {
			if i%10 == 9 {
				c.Close()
				continue
			}
			c.expect(wrongPass)
		}
		synctest.Wait()
		if most.Load() > maxLoginsOfOrigin || all.Load() < clients/2 {
			t.Errorf("%d of %d connections at a time", most.Load(), all.Load())
		}
		if took := time.Since(began); took > maxAddressPause+time.Second {
			t.Errorf("%d guesses took %v", clients, took)
		}
		if n := r.server.Stats().AuthFailures["user"]; n < clients*9/10 {
			t.Errorf("%d failures are counted", n)
		}
		if l := &r.server.logins; l.running != 0 || l.waiting != 0 || len(l.origins) != 0 || len(l.turns) != 0 {
			t.Errorf("left of %d logins: %d run, %d wait, %d addresses", clients, l.running, l.waiting, len(l.origins))
		}
	})
}

// TestLoginsTakeTurns proves that a flood of one address keeps no other one waiting.
func TestLoginsTakeTurns(t *testing.T) {
	var l logins
	var started []string
	enter := func(origin string) bool {
		return l.enter(origin, func() { started = append(started, origin) })
	}
	for range 1000 {
		enter("flood")
	}
	enter("a")
	enter("b")
	if got := strings.Join(started, " "); got != "flood flood flood flood a b" {
		t.Errorf("at once: %s", got)
	}
	for range 8 {
		enter("c")
	}
	l.leave("flood")
	l.leave("a")
	enter("a")
	l.leave("c")
	l.leave("c")
	if got := strings.Join(started[6:], " "); got != "c c c flood c a" {
		t.Errorf("later: %s", got)
	}
	for l.waiting < maxLoginsWaiting {
		enter("flood")
	}
	if enter("d") {
		t.Error("any number may wait")
	}
	for len(l.origins) > 0 {
		for name, o := range l.origins {
			if o.running > 0 {
				l.leave(name)
			}
		}
	}
	if l.running != 0 || l.waiting != 0 || len(l.turns) != 0 {
		t.Errorf("in the end %d run and %d wait", l.running, l.waiting)
	}
}

// TestOrigins proves what is taken for one address, and that the addresses are bounded.
func TestOrigins(t *testing.T) {
	for addr, want := range map[string]string{
		"10.1.2.3:5000": "10.1.2.3", "[::ffff:10.1.2.3]:5000": "10.1.2.3", "[::1]:5000": "::1",
		"[2001:db8:1:2:3:4:5:6]:1": "2001:db8:1:2::/64", "[fe80::1%eth0]:1": "fe80::/64", "/run/sock:0": "/run/sock:0",
	} {
		if got := originOf(addr); got != want {
			t.Errorf("%s: %s, want %s", addr, got, want)
		}
	}
	a, now := newAddresses(), time.Now()
	for i := range 2 * maxAddresses {
		a.failedNow(fmt.Sprint(i), now)
	}
	if n := a.failed.Len(); n != maxAddresses {
		t.Errorf("%d addresses are remembered", n)
	}
}

// TestShownUser proves that the log shows names, and no password in the place of one.
func TestShownUser(t *testing.T) {
	inBubble(t, 1, Options{Password: "pass-word"}, echo, func(r *rig) {
		for name, want := range map[string]string{
			"alice": "alice", "a.b@c-d": "a.b@c-d", "pass-word": "(not shown)", "a b": "(not shown)",
			"a\nlevel=ERROR": "(not shown)", strings.Repeat("a", 65): "(not shown)", "\x1b[31m": "(not shown)",
		} {
			if got := (whole{r.server}).shownUser(name); got != want {
				t.Errorf("%q: %s", name, got)
			}
		}
	})
}
