package pipe

import (
	"testing"

	"lockproxy/internal/scripted"
)

// TestOwnNumberedLater proves that a connection which was made while a script ran, when CLIENT ID is
// refused, has its id for the next owner: without it CLIENT UNBLOCK does nothing.
func TestOwnNumberedLater(t *testing.T) {
	inOwnBubble(t, Options{}, func(t *testing.T, r *rig, node *scripted.Node) {
		answer, busy := node.Answer, true
		node.Answer = func(line string) string {
			if busy {
				return "-BUSY Redis is busy running a script.\r\n"
			}
			return answer(line)
		}
		var k keeper
		var first, again *Pipe
		r.own(func() {
			first = r.pool.Own("a:1", Mode{Proto: 2}, &k)
			first.Request(command("GET"), &k, 1)
		})
		k.want(t, "busy", `1 "-BUSY Redis is busy running a script.\r\n"`)
		busy = false
		r.own(func() {
			first.Release()
			again = r.pool.Own("a:1", Mode{Proto: 2}, &k)
			again.Request(command("PING"), &k, 2) // as a command that blocks does without the id
		})
		k.want(t, "later", `2 "+OK\r\n"`)
		if again.ClientID() == 0 {
			t.Error("its id is not known")
		}
	})
}
