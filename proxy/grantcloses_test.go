package proxy

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"lockproxy/proxy/memory"
)

// A client that is closed by its output limit with the very grant of a lock owes a drain nothing: the drain
// behind the test ends in time.
func TestGrantThatClosesItsClient(t *testing.T) {
	var o Options
	o.Output.Normal = memory.Limit{Hard: 1920}
	inBubble(t, 1, o, func(n int, command string) string {
		if command == "GET k" {
			return "$1900\r\n" + strings.Repeat("x", 1900) + "\r\n"
		}
		time.Sleep(10 * time.Millisecond)
		return map[bool]string{true: nodeGrant, false: ":1\r\n"}[strings.Contains(command, " 30001")]
	}, func(r *rig) {
		c := r.connect()
		c.send("GET k") // which the connection takes, and its client does not read
		synctest.Wait()
		c.send("GET k", "LOCK job TOKEN token")
		time.Sleep(time.Second)
		if n := r.scripts(); n != 2 || r.server.Clients() != 0 {
			r.Errorf("%d calls of scripts, %d clients: %s", n, r.server.Clients(), r.commands())
		}
	})
}
