package proxy

import (
	"strings"
	"testing"
)

// Of a command that all masters run, and that empties them, the client hears once, behind its answer; what it
// reads later has it hear again.
func TestFlushIsToldOnce(t *testing.T) {
	node := trackingNode(func(_ int, command string) string {
		if strings.HasPrefix(command, "FLUSH") {
			return "+OK\r\n" + allInvalid
		}
		return "$1\r\n1\r\n"
	})
	inBubble(t, 3, Options{}, node, func(r *rig) {
		c := r.newTracker("")
		for range 2 {
			c.tell("$1\r\n1\r\n", "GET a")
			c.tell("+OK\r\n"+allInvalid, "FLUSHALL")
			c.tell("+PONG\r\n", "PING")
		}
	})
}
