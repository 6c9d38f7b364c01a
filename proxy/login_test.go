package proxy

import (
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
