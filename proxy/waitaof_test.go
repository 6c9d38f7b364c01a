package proxy

import "testing"

// A master that answers WAITAOF with more numbers than were asked for ends nobody but its client's command.
func TestWaitAOFWithTooManyNumbers(t *testing.T) {
	inBlockBubble(t, 1, Options{}, func(n *blockNodes) {
		n.replicas(map[int]string{1: "*4\r\n:1\r\n:1\r\n:1\r\n:1\r\n"})
		c := n.connect()
		c.send("WAITAOF 1 1 0")
		c.expect("*4\r\n:1\r\n:1\r\n:1\r\n:1\r\n")
	})
}
