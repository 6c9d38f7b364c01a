package attacks

import (
	"fmt"
	"strings"
	"testing"

	"lockproxy/integration/rig"
)

// TestLoginLeavesNothing proves that the connections of a user of the upstream end with his client, or
// before, and that who is a user no more is let in no more. What he may do login.txt of the transcripts has.
func TestLoginLeavesNothing(t *testing.T) {
	t.Parallel()
	nodes := rig.StartCluster(t, 3, 0)
	addr := rig.StartProxy(t, "--upstream", nodes.Addrs()).Addr
	admin := rig.Connect(t, addr)
	keys := []string{"key1", "key2", "key3", "key4", "key5", "key6"}
	connections := func() (n int) {
		for _, node := range nodes.Nodes {
			n += strings.Count(node.Do(t, "CLIENT", "LIST").Text, "user=ann ")
		}
		return n
	}
	login := func() *rig.Conn {
		c := rig.Connect(t, addr)
		c.Want(t, "OK", "AUTH", "ann", "pw")
		for _, key := range keys {
			c.Must(t, "SET", key, "v")
		}
		return c
	}
	for i, end := range []func(c *rig.Conn){
		func(c *rig.Conn) { c.Want(t, "OK", "AUTH", "default", "") },
		func(c *rig.Conn) { c.Must(t, "RESET") },
		func(c *rig.Conn) { c.Must(t, "QUIT") },
		func(c *rig.Conn) {
			c.Send("WATCH", "key1")
			c.Send("BLPOP", "list", "0")
			c.Close()
		},
	} {
		admin.Want(t, "OK", "ACL", "SETUSER", "ann", "reset", "on", ">pw", "~*", "+set", "+watch", "+blpop",
			"+multi")
		c := login()
		if n := connections(); n < 2 {
			t.Errorf("%d connections of the user", n)
		}
		end(c)
		rig.Eventually(t, rig.Patience, fmt.Sprintf("connections gone, way %d", i),
			func() bool { return connections() == 0 })
	}
	c := login()
	// Locks are the proxy's, whoever asks for them.
	if got := c.Must(t, "LOCK", "l"); len(got.Elems) != 4 {
		t.Errorf("LOCK: %s", got)
	}
	c.Want(t, "OK", "WATCH", "key1")
	c.Want(t, "OK", "AUTH", "default", "")
	c.Want(t, "OK", "MULTI")
	c.Want(t, "QUEUED", "SET", "key1", "w")
	c.Want(t, "(nil)", "EXEC")
	c.Want(t, "OK", "AUTH", "ann", "pw")
	admin.Want(t, "(integer) 1", "ACL", "DELUSER", "ann")
	const refused = "WRONGPASS invalid username-password pair or user is disabled."
	rig.Eventually(t, rig.Patience, "the user is nobody", func() bool {
		v, err := c.Do("SET", "key1", "w")
		if err != nil { // it was found out in the middle of a command, and such a client is closed
			c = rig.Connect(t, addr)
			return true
		}
		return v.Text == "NOAUTH Authentication required."
	})
	c.Want(t, "(error) "+refused, "AUTH", "ann", "pw")
	c.Want(t, "OK", "AUTH", "default", "")
	c.Want(t, "OK", "SET", "key1", "x")
}
