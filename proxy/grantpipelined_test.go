package proxy

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A client that has read nothing has not got its grant, though a command that it sent in the same pipeline is
// read after that.
func TestGrantAndAPipelineSentBefore(t *testing.T) {
	inBubble(t, 1, Options{}, func(_ int, command string) string {
		switch {
		case strings.HasPrefix(command, "EVALSHA"):
			return nodeGrant
		case strings.HasPrefix(command, "BLPOP"):
			time.Sleep(300 * time.Millisecond)
			return "*-1\r\n"
		}
		return "+OK\r\n"
	}, func(r *rig) {
		c := r.connect()
		c.send("LOCK job TOKEN token", "BLPOP k 0.3", "GET k")
		synctest.Wait()
		time.Sleep(500 * time.Millisecond)
		c.Close()
		if n := r.scripts(); n != 2 {
			r.Errorf("%d calls of scripts, want 2: %s", n, r.commands())
		}
	})
}
