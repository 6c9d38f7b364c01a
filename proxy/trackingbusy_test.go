package proxy

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

const scriptRuns = "-BUSY Redis is busy running a script.\r\n"

// A client that tracks already, and says so once more while a script runs, goes on tracking: of what it has
// read at that node it is told that all has changed.
func TestTrackAgainBesideScript(t *testing.T) {
	var busy atomic.Bool
	inBubble(t, 1, Options{}, func(node int, command string) string {
		if busy.Load() {
			return scriptRuns
		}
		return trackingNode(func(int, string) string { return "$1\r\nv\r\n" })(node, command)
	}, func(r *rig) {
		c := r.newTracker("")
		c.tell("$1\r\nv\r\n", "GET k")
		busy.Store(true)
		c.tell(allInvalid+"+OK\r\n:0\r\n", trackOn+" NOLOOP", "CLIENT GETREDIR")
		busy.Store(false)
		c.tell("$1\r\nv\r\n", "GET k")
		if got := r.commands(); !strings.HasSuffix(got, trackOn+" NOLOOP, 1: GET k") {
			t.Errorf("sent %s", got)
		}
	})
}

// A node that runs a script does not tell the id of the connection that gets the invalidations. Then nothing
// is tracked.
func TestRedirectBesideScript(t *testing.T) {
	var busy atomic.Bool
	inBubble(t, 1, Options{}, func(node int, command string) string {
		if busy.Load() && (command == "CLIENT ID" || command == "PING") {
			return scriptRuns
		}
		return trackingNode(func(int, string) string { return "$1\r\nv\r\n" })(node, command)
	}, func(r *rig) {
		other, c := r.connect(), r.connect()
		other.hello3()
		busy.Store(true)
		c.tell(scriptRuns+":-1\r\n", trackOn+" REDIRECT 1", "CLIENT GETREDIR")
		busy.Store(false)
		c.tell("+OK\r\n$1\r\nv\r\n", trackOn+" REDIRECT 1", "GET k")
		time.Sleep(time.Minute)
		if got := r.commands(); strings.Contains(got, "REDIRECT 0") || !strings.Contains(got, "REDIRECT 71") {
			t.Errorf("sent %s", got)
		}
	})
}
