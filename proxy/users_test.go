package proxy

import (
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"lockproxy/cluster"
)

// ownNode is added to the number of a node where a client's own connections lead.
const ownNode = 10

// inUsersBubble is inBubble for clients that must be users of the upstream. Nodes 1 to 9 serve what the proxy
// asks as itself, those above what users ask over connections of their own.
func inUsersBubble(t *testing.T, nodes int, answer func(node int, command string) string, test func(r *rig)) {
	inBubble(t, nodes, Options{UsersOnly: true}, answer, func(r *rig) {
		r.as = func(node int, m cluster.Mode, _ bool) (int, error) {
			if m.As != nil {
				return node + ownNode, nil
			}
			return node, nil
		}
		test(r)
	})
}

// usersNode answers DRYRUN with what allowed says of the user and the command, and is an echo besides.
func usersNode(allowed func(user, command string) string) func(int, string) string {
	return func(node int, command string) string {
		words := strings.SplitN(command, " ", 4)
		switch {
		case strings.HasPrefix(command, "ACL DRYRUN "):
			return allowed(words[2], words[3])
		case strings.HasPrefix(command, "HELLO"), strings.HasPrefix(command, "CLIENT SETNAME"):
			return "+OK\r\n"
		case command == "CLIENT ID":
			return fmt.Sprintf(":%d\r\n", 70+node)
		}
		return echo(node, command)
	}
}

func everything(string, string) string { return "+OK\r\n" }

// Nobody is served before AUTH, nor after RESET, and what is served goes over connections of the user.
func TestUsersOnly(t *testing.T) {
	const noHello = "-NOAUTH HELLO must be called with the client already authenticated, otherwise the " +
		"HELLO AUTH " +
		"<user> <pass> option can be used to authenticate the client and select the RESP protocol version " +
		"at the same time\r\n"
	const noAuth = "-NOAUTH Authentication required.\r\n"
	inUsersBubble(t, 1, usersNode(everything), func(r *rig) {
		c := r.connect()
		c.send("GET k", "PING", "LOCK k", "CONFIG GET *", "MULTI", "SUBSCRIBE c", "HELLO 3")
		c.expect(strings.Repeat(noAuth, 6) + noHello)
		for _, login := range []string{"AUTH secret", "AUTH default secret", "AUTH alice secret"} {
			c.send(login, "GET k")
			c.expect("+OK\r\n+11 GET k\r\n")
			c.send("RESET", "GET k", "LOCK k")
			c.expect("+RESET\r\n" + noAuth + noAuth)
		}
		c.send("HELLO 2 AUTH alice secret SETNAME me")
		if line, err := c.r.ReadString('2'); err != nil || !strings.HasPrefix(line, "*14\r\n") {
			t.Errorf("HELLO AUTH: %q, %v", line, err)
		}
		if seen := r.commands(); strings.Contains(seen, " 1: GET") || strings.HasPrefix(seen, "1: GET") {
			t.Errorf("the proxy's own connections served a client: %s", seen)
		}
	})
}

// Who is refused stays who he was: nobody.
func TestUserRefused(t *testing.T) {
	inUsersBubble(t, 1, usersNode(everything), func(r *rig) {
		r.node = func(node int, m cluster.Mode, _ bool, here, there net.Conn) (net.Conn, error) {
			if node > ownNode {
				here.Close()
				return nil, fmt.Errorf("refused")
			}
			go r.serve(node, there)
			return here, nil
		}
		c := r.connect()
		c.send("AUTH alice wrong")
		if line, err := c.r.ReadString('\n'); err != nil || line[0] != '-' {
			t.Errorf("AUTH: %q, %v", line, err)
		}
		c.send("GET k")
		c.expect("-NOAUTH Authentication required.\r\n")
	})
}

// TestUserGoneInsideExec proves that a transaction whose user is deleted while EXEC runs is answered once,
// and ends nothing but the client's rights.
func TestUserGoneInsideExec(t *testing.T) {
	var gone atomic.Bool
	node := usersNode(func(user, command string) string {
		if gone.Load() {
			return "-ERR User 'alice' not found\r\n"
		}
		return "+OK\r\n"
	})
	inUsersBubble(t, 1, func(n int, command string) string {
		switch command {
		case "MULTI":
			return "+OK\r\n"
		case "EXEC":
			gone.Store(true)
			return "*0\r\n"
		}
		return node(n, command)
	}, func(r *rig) {
		c := r.connect()
		c.send("AUTH alice secret", "MULTI", "CLIENT GETNAME", "CLIENT GETNAME", "EXEC")
		const noAuth = "-NOAUTH Authentication required.\r\n"
		c.expect("+OK\r\n+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n" + noAuth + noAuth)
		c.tell(noAuth, "GET k")
	})
}

// A client whose user is deleted begins anew, as after RESET: who authenticates then finds neither its name
// nor its database.
func TestUserGoneBeginsAnew(t *testing.T) {
	var gone atomic.Bool
	inUsersBubble(t, 1, usersNode(func(user, _ string) string {
		if gone.Load() {
			return "-ERR User 'alice' not found\r\n"
		}
		return "+OK\r\n"
	}), func(r *rig) {
		c := r.connect()
		c.tell(strings.Repeat("+OK\r\n", 3), "AUTH alice secret", "CLIENT SETNAME me", "SELECT 3")
		gone.Store(true)
		c.tell("-NOAUTH Authentication required.\r\n", "CLIENT GETNAME")
		gone.Store(false)
		c.tell("+OK\r\n$-1\r\n", "AUTH bob secret", "CLIENT GETNAME")
		r.on(func() {
			if db := r.sessionOf(1).DB; db != 3 { // it would write elsewhere, and not notice
				t.Errorf("it is in database %d", db)
			}
		})
	})
}

// What a user has sent in front of a command for a lock has run at the lock's node before that command goes
// there, though both go over connections of their own.
func TestOrderOfUsersAndLocks(t *testing.T) {
	var running, early atomic.Int64
	node := usersNode(everything)
	inUsersBubble(t, 3, func(n int, command string) string {
		switch {
		case strings.HasPrefix(command, "SET "):
			running.Add(1)
			time.Sleep(time.Second)
			running.Add(-1)
		case strings.HasPrefix(command, "EVALSHA "):
			early.Add(running.Load())
			return ":1\r\n"
		}
		return node(n, command)
	}, func(r *rig) {
		c := r.connect()
		c.send("AUTH alice secret")
		c.expect("+OK\r\n")
		for _, key := range []string{"a", "b", "c", "d", "e"} { // at all nodes
			c.send("SET "+key+" v", "UNLOCK "+key+" t")
			line, _ := c.r.ReadString('\n')
			answer, err := c.r.ReadString('\n')
			if early.Load() > 0 || err != nil {
				t.Errorf("UNLOCK of %s ran beside SET: %q, %q (%v)", key, line, answer, err)
			}
		}
	})
}
