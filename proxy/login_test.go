package proxy

import (
	"strings"
	"testing"
	"time"
)

// HELLO that makes another user the default one again, for whom the shared connections do.
func TestHelloBackToTheDefaultUser(t *testing.T) {
	inBubble(t, 2, Options{}, trackingNode(echo), func(r *rig) {
		c := r.connect()
		c.tell("+OK\r\n", "AUTH bob secret")
		c.hello("HELLO 3 AUTH default x")
		c.tell("+PONG\r\n", "PING")
		c.hello("HELLO 2 AUTH bob secret")
		c.tell("+PONG\r\n", "PING")
		c.hello("HELLO 3 AUTH default x")
		c.tell("+PONG\r\n", "PING")
		c.tell("+OK\r\n", trackOn)
		c.tell("+OK\r\n", "AUTH bob secret")
		c.hello("HELLO 3 AUTH default x")
		c.tell("+PONG\r\n", "PING")
	})
}

// Redis 6.0 knows no HELLO without a protocol, and its rules may forbid HELLO: users log in there too.
func TestLoginAtRedis6(t *testing.T) {
	for reply, said := range map[string]string{
		"+OK\r\n": "+OK\r\n",
		"-NOPERM this user has no permissions to run the 'hello' command\r\n": "+OK\r\n",
		wrongPass: wrongPass,
	} {
		node := usersNode(everything)
		inUsersBubble(t, 1, func(n int, command string) string {
			switch {
			case command == "HELLO":
				return "-ERR wrong number of arguments for 'hello' command\r\n"
			case n > ownNode && strings.HasPrefix(command, "HELLO"):
				return reply
			}
			return node(n, command)
		}, func(r *rig) {
			c := r.connect()
			c.tell(said, "AUTH alice secret")
		})
	}
}

// Before Redis 7.0 the rules of a user are read, and what is judged by them is the command that the client
// sent, whatever others send until they come.
func TestRulesAreOfTheCommandThatWasSent(t *testing.T) {
	node := usersNode(everything)
	rules := "*8\r\n$5\r\nflags\r\n*1\r\n$2\r\non\r\n$9\r\npasswords\r\n*0\r\n$8\r\ncommands\r\n$11\r\n" +
		"-@all +echo\r\n$4\r\nkeys\r\n*1\r\n$1\r\n*\r\n"
	inUsersBubble(t, 1, func(n int, command string) string {
		if strings.HasPrefix(command, "ACL GETUSER") {
			time.Sleep(10 * time.Millisecond)
			return rules
		}
		return node(n, command)
	}, func(r *rig) {
		r.topology.Server.Version = "6.0.16"
		alice, bob := r.connect(), r.connect()
		alice.tell("+OK\r\n", "AUTH alice secret")
		bob.tell("+OK\r\n", "AUTH bob secret")
		alice.send("INFO server")
		time.Sleep(time.Millisecond)
		bob.send("ECHO server")
		alice.SetReadDeadline(time.Now().Add(time.Minute))
		if line, err := alice.r.ReadString('\n'); err != nil || !strings.HasPrefix(line, "-NOPERM ") {
			t.Errorf("%q %v", line, err)
		}
		bob.expect("$6\r\nserver\r\n")
	})
}

func (c *testClient) hello(line string) {
	c.Helper()
	c.send(line)
	c.SetReadDeadline(time.Now().Add(time.Minute))
	for {
		line, err := c.r.ReadString('\n')
		if err != nil {
			c.Fatal(err)
		}
		if line == "*0\r\n" {
			return
		}
	}
}
