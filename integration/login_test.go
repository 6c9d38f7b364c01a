package integration

import (
	"fmt"
	"strings"
	"testing"
)

// TestLoginLeavesNothing proves that the connections of a user of the upstream end with his client, or
// before, and that who is a user no more is let in no more. What he may do login.txt of the transcripts has.
func TestLoginLeavesNothing(t *testing.T) {
	t.Parallel()
	nodes := startCluster(t, 3, 0)
	addr := startProxy(t, "--upstream", nodes.addrs()).addr
	admin := connect(t, addr)
	keys := []string{"key1", "key2", "key3", "key4", "key5", "key6"}
	connections := func() (n int) {
		for _, node := range nodes.nodes {
			n += strings.Count(node.do(t, "CLIENT", "LIST").text, "user=ann ")
		}
		return n
	}
	login := func() *conn {
		c := connect(t, addr)
		c.want(t, "OK", "AUTH", "ann", "pw")
		for _, key := range keys {
			c.must(t, "SET", key, "v")
		}
		return c
	}
	for i, end := range []func(c *conn){
		func(c *conn) { c.want(t, "OK", "AUTH", "default", "") },
		func(c *conn) { c.must(t, "RESET") },
		func(c *conn) { c.must(t, "QUIT") },
		func(c *conn) {
			c.send("WATCH", "key1")
			c.send("BLPOP", "list", "0")
			c.Close()
		},
	} {
		admin.want(t, "OK", "ACL", "SETUSER", "ann", "reset", "on", ">pw", "~*", "+set", "+watch", "+blpop", "+multi")
		c := login()
		if n := connections(); n < 2 {
			t.Errorf("%d connections of the user", n)
		}
		end(c)
		eventually(t, patience, fmt.Sprintf("connections gone, way %d", i), func() bool { return connections() == 0 })
	}
	c := login()
	// Locks are the proxy's, whoever asks for them.
	if got := c.must(t, "LOCK", "l"); len(got.elems) != 4 {
		t.Errorf("LOCK: %s", got)
	}
	c.want(t, "OK", "WATCH", "key1")
	c.want(t, "OK", "AUTH", "default", "")
	c.want(t, "OK", "MULTI")
	c.want(t, "QUEUED", "SET", "key1", "w")
	c.want(t, "(nil)", "EXEC")
	c.want(t, "OK", "AUTH", "ann", "pw")
	admin.want(t, "(integer) 1", "ACL", "DELUSER", "ann")
	const refused = "WRONGPASS invalid username-password pair or user is disabled."
	eventually(t, patience, "the user is nobody", func() bool {
		v, err := c.do("SET", "key1", "w")
		if err != nil { // it was found out in the middle of a command, and such a client is closed
			c = connect(t, addr)
			return true
		}
		return v.text == "NOAUTH Authentication required."
	})
	c.want(t, "(error) "+refused, "AUTH", "ann", "pw")
	c.want(t, "OK", "AUTH", "default", "")
	c.want(t, "OK", "SET", "key1", "x")
}
