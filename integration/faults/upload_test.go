package faults

import (
	"fmt"
	"strings"
	"testing"

	"lockproxy/integration/rig"
)

// begin sends SET key without the last 10 bytes of its value, of size bytes.
func begin(t *testing.T, c *rig.Conn, key string, size int) {
	t.Helper()
	if _, err := fmt.Fprintf(c, "*3\r\n$3\r\nSET\r\n$%d\r\n%s\r\n$%d\r\n%s", len(key), key, size,
		strings.Repeat("v", size-10)); err != nil {
		t.Fatal(err)
	}
}

// end sends the rest.
func end(t *testing.T, c *rig.Conn) {
	t.Helper()
	if _, err := c.Write([]byte(strings.Repeat("v", 10) + "\r\n")); err != nil {
		t.Fatal(err)
	}
}

// A large command whose slot moves while it comes is not run, and its client is told so. The next one goes to
// the new master at once, and one to a slot that is moving goes where its key is. R33
func TestLargeCommandWhileItsSlotMoves(t *testing.T) {
	t.Parallel()
	const size = 4 << 20
	u := rig.StartCluster(t, 3, 0)
	p := rig.StartBinary(t, rig.LeanBinary(t), "--upstream", u.Addrs())
	c := rig.Connect(t, p.Addr)
	slot, from := u.SlotOf(t, "a"), u.MasterOf(t, "a")
	to := u.Nodes[0]
	if to == from {
		to = u.Nodes[1]
	}
	begin(t, c, "a", size)
	rig.Eventually(t, rig.Patience, "the node has a part of it", func() bool {
		return hasHalf(from.Do(t, "CLIENT", "LIST").Text)
	})
	u.Migrate(t, slot, from, to, 0)
	end(t, c)
	if v, err := c.Receive(rig.Patience); err != nil || !v.IsError("TRYAGAIN") {
		t.Fatalf("it was answered %s (%v)", v, err)
	}
	c.Want(t, "(nil)", "GET", "a")
	begin(t, c, "a", size)
	end(t, c)
	if v, err := c.Receive(rig.Patience); err != nil || v.Text != "OK" {
		t.Fatalf("at the new master it was answered %s (%v)", v, err)
	}
	c.Want(t, fmt.Sprintf("(integer) %d", size), "STRLEN", "a")

	s := fmt.Sprint(slot)
	from.Do(t, "CLUSTER", "SETSLOT", s, "IMPORTING", to.Do(t, "CLUSTER", "MYID").Text)
	to.Do(t, "CLUSTER", "SETSLOT", s, "MIGRATING", from.Do(t, "CLUSTER", "MYID").Text)
	for _, key := range []string{"a", "{a}new"} { // at the source, and at the target
		begin(t, c, key, size+1)
		end(t, c)
		if v, err := c.Receive(rig.Patience); err != nil || v.Text != "OK" {
			t.Fatalf("%s in a moving slot was answered %s (%v)", key, v, err)
		}
		c.Want(t, fmt.Sprintf("(integer) %d", size+1), "STRLEN", key)
	}
}

// hasHalf says that a client of the list has sent a part of a large command.
func hasHalf(list string) bool {
	for line := range strings.Lines(list) {
		var n int
		if _, after, ok := strings.Cut(line, " tot-mem="); ok {
			fmt.Sscan(after, &n)
		}
		if n > 2<<20 && strings.Contains(line, "name=lockproxy") {
			return true
		}
	}
	return false
}

// Of large replies that are not read the proxy keeps a few buffers a client, and nobody else waits. They come
// whole when they are read, and are those of their requests.
func TestLargeRepliesAreNotKept(t *testing.T) {
	const size, clients = 16 << 20, 10
	for _, name := range []string{"single", "cluster"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			upstream := ""
			if name == "cluster" {
				upstream = rig.StartCluster(t, 3, 0).Addrs()
			} else {
				upstream = rig.StartRedis(t).Addr
			}
			p := rig.StartBinary(t, rig.LeanBinary(t), "--upstream", upstream)
			c := rig.Connect(t, p.Addr)
			for _, key := range []string{"a", "b"} {
				c.Must(t, "SET", key, strings.Repeat(key, size))
			}
			c.Must(t, "SET", "short", "x")
			before := p.RSS(t)
			var all []*rig.Conn
			for i := range clients {
				d := rig.Connect(t, p.Addr)
				d.Send("GET", []string{"a", "b"}[i%2])
				if _, err := d.Reader.Peek(1); err != nil {
					t.Fatal(err)
				}
				all = append(all, d)
			}
			for range 20 {
				c.Want(t, `"x"`, "GET", "short")
			}
			if n := p.RSS(t) - before; n > clients<<20 {
				t.Errorf("%d MB more memory", n>>20)
			}
			for i, d := range all {
				want := strings.Repeat([]string{"a", "b"}[i%2], size)
				if v, err := d.Receive(2 * rig.Patience); err != nil || v.Text != want {
					t.Fatalf("client %d: %d bytes, %.10s (%v)", i, len(v.Text), v.Text, err)
				}
				d.Want(t, `"x"`, "GET", "short")
			}
		})
	}
}
