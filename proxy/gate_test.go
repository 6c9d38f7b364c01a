package proxy

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"lockproxy/cluster"
)

const denied = "-NOPERM this user has no permissions to run the '%s' command\r\n"

// deniedBy is what DRYRUN says where it denies a command.
func deniedBy(text string) string { return fmt.Sprintf("$%d\r\n%s\r\n", len(text), text) }

// only allows the commands that begin with one of words.
func only(words ...string) func(user, command string) string {
	return func(_, command string) string {
		for _, word := range words {
			if strings.HasPrefix(command, word) {
				return "+OK\r\n"
			}
		}
		name := strings.ToLower(strings.Fields(command)[0])
		return deniedBy("This user has no permissions to run the '" + name + "' command")
	}
}

func (c *testClient) login() {
	c.Helper()
	c.send("AUTH alice secret")
	c.expect("+OK\r\n")
}

// What the proxy answers by itself is asked for, in the order of the pipeline, and what nodes judge is not.
func TestGate(t *testing.T) {
	inUsersBubble(t, 1, usersNode(only("PING", "CLIENT ID")), func(r *rig) {
		c := r.connect()
		c.login()
		c.send("GET a", "PING", "GET b", "ECHO x", "GET c", "PING", "PUBLISH ch m", "EVAL x 0")
		c.expect("+11 GET a\r\n+PONG\r\n+11 GET b\r\n" + fmt.Sprintf(denied, "echo") +
			"+11 GET c\r\n+PONG\r\n+11 PUBLISH ch m\r\n+11 EVAL x 0\r\n")
		seen := r.commands()
		for _, hidden := range []string{"secret", "DRYRUN alice GET", "DRYRUN alice PUBLISH",
			"DRYRUN alice EVAL"} {
			if strings.Contains(seen, hidden) {
				t.Errorf("asked: %s", seen)
			}
		}
		c.send("LOCK job TOKEN topsecret", "CONFIG SET requirepass hidden", "SUBSCRIBE a b", "HELLO 2")
		c.expect(strings.Replace(fmt.Sprintf(denied, "set"), "\r", " (LOCK asks for it)\r", 1) +
			fmt.Sprintf(denied, "config") +
			fmt.Sprintf(denied, "subscribe") + "*14\r\n")
		seen = r.commands()
		for _, want := range []string{"1: ACL DRYRUN alice SET lock:{job} * GET",
			"1: ACL DRYRUN alice CONFIG SET * *",
			"1: ACL DRYRUN alice SUBSCRIBE a b"} {
			if !strings.Contains(seen, want) {
				t.Errorf("no %q in %s", want, seen)
			}
		}
		if strings.Contains(seen, "topsecret") || strings.Contains(seen, "EVALSHA") ||
			strings.Contains(seen, "hidden") {
			t.Errorf("the nodes saw %s", seen)
		}
	})
}

// A transaction that has queued what is denied runs nothing, and what is allowed when it is queued is judged
// again when it runs.
func TestGateInTransactions(t *testing.T) {
	var forbid string
	allowed := func(user, command string) string {
		if forbid != "" {
			return only("MULTI", forbid)(user, command)
		}
		return everything(user, command)
	}
	answer := usersNode(allowed)
	node := func(n int, command string) string {
		switch command {
		case "MULTI", "DISCARD":
			return "+OK\r\n"
		case "SET k v":
			return "+QUEUED\r\n"
		case "EXEC":
			forbid = "none" // from now on
			return "*1\r\n+OK\r\n"
		}
		return answer(n, command)
	}
	inUsersBubble(t, 1, node, func(r *rig) {
		c := r.connect()
		c.login()
		c.send("MULTI", "SET k v", "CLIENT ID")
		c.expect("+OK\r\n+QUEUED\r\n+QUEUED\r\n")
		c.send("EXEC")
		c.expect("*2\r\n+OK\r\n" + fmt.Sprintf(denied, "client"))
		c.send("MULTI", "SET k v", "CLIENT ID", "EXEC")
		c.expect("+OK\r\n+QUEUED\r\n" + fmt.Sprintf(denied, "client") +
			"-EXECABORT Transaction discarded because of previous errors.\r\n")
	})
}

// Of what a verb runs is asked in the database in which it runs, of the verb's lock in that where locks are.
func TestGateInDatabases(t *testing.T) {
	inUsersBubble(t, 1, usersNode(only("SELECT", "GET", "HGETALL")), func(r *rig) {
		r.topology.Kind = cluster.Single
		r.as = func(_ int, m cluster.Mode, _ bool) (int, error) {
			if m.As != nil {
				return ownNode, nil
			}
			return 1 + m.DB, nil
		}
		c := r.connect()
		c.login()
		c.send("SELECT 4", "GUARD job t SET k v")
		c.expect("+OK\r\n" + strings.Replace(fmt.Sprintf(denied, "set"), "\r", " (GUARD asks for it)\r", 1))
		seen := r.commands()
		for want, n := range map[string]int{"1: ACL DRYRUN alice GET lock:{job}": 1,
			"1: ACL DRYRUN alice HGETALL lock:{job}": 1, "5: ACL DRYRUN alice SET k v": 1, ": EVALSHA": 0} {
			if got := strings.Count(seen, want); got != n {
				t.Errorf("%d times %q, want %d: %s", got, want, n, seen)
			}
		}
	})
}

// A command that is cut by slot is allowed as a whole, or no part of it runs.
func TestGateBeforeParts(t *testing.T) {
	answer := usersNode(only("DEL foo bar"))
	node := func(n int, command string) string {
		if strings.HasPrefix(command, "DEL ") {
			return ":1\r\n"
		}
		return answer(n, command)
	}
	inUsersBubble(t, 3, node, func(r *rig) {
		c := r.connect()
		c.login()
		c.send("MGET foo bar k", "DEL foo bar k", "DEL foo k", "MSET foo hidden k hidden")
		c.expect(fmt.Sprintf(denied, "mget") + ":3\r\n" + fmt.Sprintf(denied, "del") +
			fmt.Sprintf(denied, "mset"))
		if seen := r.commands(); strings.Contains(seen, ": MGET") || strings.Contains(seen, "hidden") {
			t.Errorf("the nodes saw %s", seen)
		}
	})
}

// A user that is deleted is nobody from the next command on, and stays so.
func TestUserGone(t *testing.T) {
	var gone atomic.Bool
	answer := usersNode(func(user, _ string) string {
		if gone.Load() {
			return "-ERR User '" + user + "' not found\r\n"
		}
		return "+OK\r\n"
	})
	inUsersBubble(t, 1, answer, func(r *rig) {
		c := r.connect()
		c.login()
		c.send("PING")
		c.expect("+PONG\r\n")
		gone.Store(true)
		const noAuth = "-NOAUTH Authentication required.\r\n"
		c.send("CLIENT ID", "GET k", "PING")
		c.expect(strings.Repeat(noAuth, 3))
		gone.Store(false)
		c.login()
		c.send("PING")
		c.expect("+PONG\r\n")
		if seen := r.commands(); strings.Contains(seen, ": GET") {
			t.Errorf("the nodes saw %s", seen)
		}
	})
}

// What a user kept alive that is deleted is let go at once, and does not linger. R18
func TestUserGoneLetsGo(t *testing.T) {
	for _, then := range []string{"PING", "MONITOR"} { // a client that monitors is closed
		var gone atomic.Bool
		asked := usersNode(everything)
		answer := func(node int, command string) string {
			args := strings.Fields(command)
			switch {
			case gone.Load() && strings.HasPrefix(command, "ACL DRYRUN "):
				return "-ERR User 'alice' not found\r\n"
			case strings.HasPrefix(command, detaching):
				return ":1\r\n"
			case args[0] == "EVALSHA" && args[2] == "1":
				return "*2\r\n:30000\r\n:1\r\n"
			case args[0] == "EVALSHA":
				return nodeGranted
			}
			return asked(node, command)
		}
		inUsersBubble(t, 1, answer, func(r *rig) {
			c := r.connect()
			c.login()
			c.send("LOCK job TOKEN t PX 30000 KEEPALIVE LINGER 60000")
			c.expect(granted)
			c.send(then)
			c.expect("+")
			time.Sleep(time.Second)
			gone.Store(true)
			go c.Write([]byte("CLIENT ID\r\n"))
			time.Sleep(5 * time.Second)
			if n := strings.Count(r.commands(), detaching); n != 1 {
				r.Errorf("%s: %d requests to let go", then, n)
			}
		})
	}
}

// CLIENT KILL USER ends clients of the user, if a node knows that one.
func TestKillUser(t *testing.T) {
	answer := usersNode(everything)
	inBubble(t, 1, Options{Loops: 2}, func(node int, command string) string {
		if strings.HasSuffix(command, "USER bob") {
			return "-ERR No such user 'bob'\r\n"
		}
		return answer(node, command)
	}, func(r *rig) {
		a := r.connect()
		a.login()
		b, admin := r.connect(), r.connect()
		b.login()
		admin.send("CLIENT KILL USER bob", "CLIENT KILL USER alice ID 1",
			"CLIENT KILL USER alice TYPE master",
			"CLIENT KILL USER alice", "CLIENT KILL USER alice", "CLIENT KILL USER default")
		admin.expect("-ERR No such user 'bob'\r\n:1\r\n:0\r\n:1\r\n:0\r\n:0\r\n")
		a.expectClosed()
		b.expectClosed()
	})
}

// Once a second the masters are asked for the rules of all users.
func TestRoster(t *testing.T) {
	// secret
	const good = "user alice on #2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b ~* &* +@all"
	var rules atomic.Pointer[string]
	answer := usersNode(everything)
	node := func(n int, command string) string {
		if command == "ACL LIST" {
			return "*2\r\n$20\r\nuser default off -@a\r\n" + deniedBy(*rules.Load())
		}
		return answer(n, command)
	}
	for _, change := range []string{
		"user bob on nopass", "user alice off" + strings.TrimPrefix(good, "user alice on"),
		strings.Replace(good,
			"#2b", "#3b", 1),
	} {
		inUsersBubble(t, 1, node, func(r *rig) {
			rules.Store(new(good))
			c := r.connect()
			c.login()
			time.Sleep(3 * time.Second)
			c.send("GET k")
			c.expect("+11 GET k\r\n")
			rules.Store(&change)
			time.Sleep(1100 * time.Millisecond)
			c.send("GET k")
			c.expect("-NOAUTH Authentication required.\r\n")
		})
	}
}

// Without the rights to ask, the proxy serves no command that it would answer by itself, and says why.
func TestProxyMayNotAsk(t *testing.T) {
	inUsersBubble(t, 1, usersNode(func(_, _ string) string {
		return "-NOPERM this user has no permissions to run the 'acl|dryrun' command\r\n"
	}), func(r *rig) {
		c := r.connect()
		c.login()
		c.send("PING")
		c.expect("-NOPERM lockproxy cannot ask what this user may do: its own user at the upstream needs " +
			"the right to " +
			"ACL DRYRUN (+acl|dryrun)\r\n")
	})
}

// A client that is closed while a node is asked where the keys of its command are leaves nothing that would
// go on as the proxy.
func TestNothingGoesOnAsTheProxy(t *testing.T) {
	var slow chan struct{}
	answer := usersNode(everything)
	node := func(n int, command string) string {
		if strings.HasPrefix(command, "COMMAND GETKEYS") {
			<-slow
			return "*1\r\n$3\r\nfoo\r\n"
		}
		return answer(n, command)
	}
	inUsersBubble(t, 2, node, func(r *rig) {
		slow = make(chan struct{})
		c := r.connect()
		c.login()
		c.send("SORT foo STORE bar")
		synctest.Wait()
		killer := r.connect()
		killer.login()
		killer.send("CLIENT KILL ID 1")
		killer.expect(":1\r\n")
		close(slow)
		synctest.Wait()
		time.Sleep(time.Second)
		if seen := r.commands(); !strings.Contains(seen, "GETKEYS SORT foo STORE bar") ||
			strings.Contains(seen, ", 1: SORT") || strings.Contains(seen, ", 2: SORT") {
			t.Errorf("the nodes saw %s", seen)
		}
	})
}
