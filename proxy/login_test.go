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

func (c *client) hello(line string) {
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
