package proxy

import (
	"sync/atomic"
	"testing"
	"time"
)

// A user who is deleted becomes nobody, also if its client wants no answers.
func TestSilentUserIsDeleted(t *testing.T) {
	var gone atomic.Bool
	node := usersNode(everything)
	inUsersBubble(t, 1, func(n int, command string) string {
		if command == "ACL LIST" {
			if gone.Load() {
				return "*1\r\n$31\r\nuser default on nopass ~* &* +@\r\n"
			}
			return "*1\r\n$24\r\nuser alice on nopass ~* \r\n"
		}
		return node(n, command)
	}, func(r *rig) {
		c := r.connect()
		c.login()
		c.send("CLIENT REPLY OFF")
		time.Sleep(3 * time.Second)
		gone.Store(true)
		time.Sleep(3 * time.Second)
		c.send("GET k")
		c.expect("-NOAUTH Authentication required.\r\n")
	})
}
