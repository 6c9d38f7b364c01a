package proxy

import "testing"

// What a client sends in answer to the loss of a connection of its own goes over a new one.
func TestOwnConnectionLostBeforeTheNextCommand(t *testing.T) {
	cut := true
	inBubble(t, 1, Options{}, trackingNode(func(_ int, command string) string {
		if command == "SET k v" && cut {
			cut = false
			return ""
		}
		return "+OK\r\n"
	}), func(r *rig) {
		c := r.newTracker("")
		c.send("SET k v", "MULTI", "DISCARD", "GET k")
		c.expect("-ERR the connection was lost after the command was sent: it may or may not have run: EOF\r\n+OK\r\n+OK\r\n" + allInvalid + "+OK\r\n")
	})
}
