package proxy

import "testing"

// CLIENT REPLY SKIP is about HELLO as about any other command.
func TestSkippedHello(t *testing.T) {
	inUsersBubble(t, 1, usersNode(everything), func(r *rig) {
		c := r.connect()
		c.login()
		c.send("CLIENT REPLY SKIP", "HELLO 2", "GET k")
		c.expect("+11 GET k\r\n")
	})
}
