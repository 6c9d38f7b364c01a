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
	"lockproxy/proxy/login"
)

const wrongPass = "-WRONGPASS invalid username-password pair or user is disabled.\r\n"

// TestGuessesAreSlow proves that wrong passwords cost their connection and their address a growing, bounded
// time and nobody else any, that a right one still gets in, and that the log is short and shows no password.
func TestGuessesAreSlow(t *testing.T) {
	var out textLog
	o := Options{Settings: Settings{Password: "the-right-one"}, Log: slog.New(slog.NewTextHandler(&out, nil))}
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
		if took := time.Since(began); took < login.FirstPause {
			t.Errorf("the second guess is answered after %v", took)
		}
		c.expect(strings.Repeat(wrongPass, 14))
		if took := time.Since(began); took < 40*time.Second || took > 60*time.Second {
			t.Errorf("16 guesses took %v", took)
		}
		right := time.Now()
		c.tell("+OK\r\n", "AUTH the-right-one")
		if took := time.Since(right); took > login.MaxPause {
			t.Errorf("the right password took %v", took)
		}
		c.send("AUTH hunter4", "AUTH the-right-one") // what was right makes good what was wrong
		right = time.Now()
		c.expect(wrongPass + "+OK\r\n")
		if took := time.Since(right); took > login.FirstPause {
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
		if took := time.Since(right); took < time.Second || took > login.MaxAddressPause {
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
		if lines < 2 || lines > int(time.Since(began)/login.LogEvery)+2 ||
			strings.Contains(out.String(), "hunter") {
			t.Errorf("log of %v:\n%s", time.Since(began), &out)
		}
		if !strings.Contains(out.String(), `msg="authentication failed" client=pipe user=default`) {
			t.Errorf("log:\n%s", &out)
		}
	})
}

// TestGuessesInATransaction proves that EXEC tries no second password behind a wrong one.
func TestGuessesInATransaction(t *testing.T) {
	inTxBubble(t, 1, Options{Settings: Settings{Password: "secret"}}, func(r *rig, n *txNodes) {
		c := r.connect()
		c.tell(ok, "AUTH secret")
		c.send("MULTI", "SET foo 1", "AUTH x", "AUTH y", "HELLO 2 AUTH default secret", "EXEC")
		tooSoon := string(login.ErrTooSoon)
		c.expect(ok + strings.Repeat(queuedOK, 4) + "*4\r\n" + ok + wrongPass + tooSoon + tooSoon)
		if n := r.server.Stats().AuthFailures["password"]; n != 1 {
			t.Errorf("%d passwords were tried", n)
		}
		began := time.Now()
		c.tell(ok, "AUTH secret")
		if took := time.Since(began); took != login.FirstPause {
			t.Errorf("the right password behind EXEC took %v", took)
		}
	})
}

// TestWaitingGuessEnds proves that who waits for his next guess is let go when he goes, and when the proxy
// drains.
func TestWaitingGuessEnds(t *testing.T) {
	inBubble(t, 1, Options{Settings: Settings{Password: "secret"}}, echo, func(r *rig) {
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
		if n := r.server.Clients(); n != 1 {
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
		r.node = func(node int, m cluster.Mode, _ bool, here, there net.Conn) (net.Conn, error) {
			go func() { // ends with the connection
				if m.As != nil {
					all.Add(1)
					n := now.Add(1)
					for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
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
		if most.Load() > login.MaxOfOrigin || all.Load() < clients/2 {
			t.Errorf("%d of %d connections at a time", most.Load(), all.Load())
		}
		if took := time.Since(began); took > login.MaxAddressPause+time.Second {
			t.Errorf("%d guesses took %v", clients, took)
		}
		if n := r.server.Stats().AuthFailures["user"]; n < clients*9/10 {
			t.Errorf("%d failures are counted", n)
		}
		free := 0
		for _, origin := range []string{"a", "b"} { // as many as run at a time, if no other does
			for range login.MaxOfOrigin {
				r.server.shared.Login.Queue.Enter(origin, func() { free++ })
			}
		}
		if free != 2*login.MaxOfOrigin {
			t.Errorf("some of %d logins are left", clients)
		}
	})
}

// TestShownUser proves that the log shows names, and no password in the place of one.
func TestShownUser(t *testing.T) {
	inBubble(t, 1, Options{Settings: Settings{Password: "pass-word"}}, echo, func(r *rig) {
		for name, want := range map[string]string{
			"alice": "alice", "a.b@c-d": "a.b@c-d", "pass-word": "(not shown)", "a b": "(not shown)",
			"a\nlevel=ERROR": "(not shown)", strings.Repeat("a", 65): "(not shown)",
			"\x1b[31m": "(not shown)",
		} {
			if got := (commandsServer{r.server}).shownUser(name); got != want {
				t.Errorf("%q: %s", name, got)
			}
		}
	})
}
