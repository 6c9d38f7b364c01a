package faults

import (
	"fmt"
	"net"
	"slices"
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
	p := rig.StartProxy(t, "--upstream", u.Addrs())
	c := rig.Connect(t, p.Addr)
	slot, from := u.SlotOf(t, "a"), u.MasterOf(t, "a")
	to := u.Nodes[0]
	if to == from {
		to = u.Nodes[1]
	}
	begin(t, c, "a", size)
	rig.Eventually(t, rig.Patience, "the node has a part of it", func() bool {
		return largestQuery(from.Do(t, "CLIENT", "LIST").Text) > 2<<20
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

// largestQuery is what the server keeps of the largest command that a proxy is sending, by its CLIENT LIST.
func largestQuery(list string) int { return slices.Max(append(ofProxies(list, "tot-mem"), 0)) }

// ofProxies is a field of CLIENT LIST of each connection that proxies have.
func ofProxies(list, field string) (all []int) {
	for line := range strings.Lines(list) {
		if _, after, ok := strings.Cut(line, " "+field+"="); ok && strings.Contains(line, "name=lockproxy") {
			var n int
			fmt.Sscan(after, &n)
			all = append(all, n)
		}
	}
	return all
}

// Large replies that are not read stay at the node, but for a few buffers of each client, and nobody else
// waits. They come whole when they are read, and are those of their requests.
func TestLargeRepliesAreNotKept(t *testing.T) {
	// The kernel keeps as much of a reply on its way as it is set to: up to 32 MB (tcp_rmem), and 10 MB more.
	const size, clients = 64 << 20, 4
	for _, name := range []string{"single", "cluster"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var nodes []*rig.Server
			if name == "cluster" {
				nodes = rig.StartCluster(t, 3, 0).Nodes
			} else {
				nodes = []*rig.Server{rig.StartRedis(t)}
			}
			p := rig.StartProxy(t, "--upstream", nodes[0].Addr)
			c := rig.Connect(t, p.Addr)
			for _, key := range []string{"a", "b"} {
				c.Must(t, "SET", key, strings.Repeat(key, size))
			}
			c.Must(t, "SET", "short", "x")
			var all []*rig.Conn
			for i := range clients {
				d := rig.Connect(t, p.Addr)
				d.Conn.(*net.TCPConn).SetReadBuffer(64 << 10) // or the kernel could keep as much here, too
				d.Send("GET", []string{"a", "b"}[i%2])
				if _, err := d.Reader.Peek(1); err != nil {
					t.Fatal(err)
				}
				all = append(all, d)
			}
			for range 20 {
				c.Want(t, `"x"`, "GET", "short")
			}
			var kept [][]int
			defer func() {
				if t.Failed() {
					t.Log("bytes that the nodes keep for connections of the proxy:", kept)
				}
			}()
			rig.Eventually(t, rig.Patience, "the nodes keep all of them", func() bool {
				kept = nil
				large := 0
				for _, n := range nodes {
					of := ofProxies(n.Do(t, "CLIENT", "LIST").Text, "omem")
					kept = append(kept, of)
					for _, bytes := range of {
						large += min(1, bytes/(size/4))
					}
				}
				return large == clients
			})
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
