package proxy

import (
	"testing"
	"time"

	"lockproxy/cluster/pipe"
)

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
		c.expect("-ERR the connection was lost after the command was sent: it may or may not have run: " +
			"EOF\r\n+OK\r\n+OK\r\n" + allInvalid + "+OK\r\n")
	})
}

// A node that has blocked a client's own connection owes it replies in time again.
func TestOwnConnectionIsNotPatientForEver(t *testing.T) {
	o := Options{Pipes: pipe.Options{Timeout: 2 * time.Second}}
	inBubble(t, 1, o, trackingNode(func(_ int, command string) string {
		switch command {
		case "BLPOP k 0":
			time.Sleep(10 * time.Second)
			return nullArray
		case "SET k v":
			return "-"
		}
		return "+OK\r\n"
	}), func(r *rig) {
		c := r.newTracker("")
		c.send("BLPOP k 0", "SET k v")
		time.Sleep(20 * time.Second)
		c.expect(nullArray + "-ERR the connection was lost after the command was sent: it may or may not " +
			"have run: no reply within upstream-timeout\r\n")
	})
}
