package transcripts

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"lockproxy/integration/rig"
)

// faceless takes out of a reply what differs from one node to the next: its id, its address, its
// epoch.
func faceless(v rig.Reply) string {
	text := v.String()
	for _, r := range []struct{ pattern, with string }{
		{`[0-9a-f]{40}`, "<id>"},
		{`("(?:ip|endpoint)"(?:,| =>) |\[)"(127\.0\.0\.1)?"`, `$1"<host>"`},
		{`(127\.0\.0\.1)?:\d+@\d+`, "<address>"},
		{`"<host>", \(integer\) \d+`, `"<host>", (integer) <port>`},
		{`"port"(,| =>) \(integer\) \d+`, `"port"$1 (integer) <port>`},
		{`epoch:\d+`, "epoch:<n>"},
		{` - 0 0 \d+ connected`, " - 0 0 <n> connected"},
	} {
		text = regexp.MustCompile(r.pattern).ReplaceAllString(text, r.with)
	}
	return text
}

// TestFrontends compares what the proxy looks like with the server that it looks like, in both protocols: one
// Redis by default, with cluster-mode yes a cluster of one node.
func TestFrontends(t *testing.T) {
	t.Parallel()
	alone, member := rig.StartRedis(t), rig.StartCluster(t, 1, 0)
	if !rig.Since(t, alone.Addr, "redis 7.0") {
		t.Fatal("the proxy answers CLUSTER in the words of Redis 7.0: put a redis-server of that version, " +
			"or a newer one, first into PATH")
	}
	for name, frontend := range map[string]struct {
		bare, proxy string
	}{
		"one Redis": {alone.Addr, rig.StartProxy(t, "--upstream", member.Addrs()).Addr},
		"cluster": {member.Nodes[0].Addr,
			rig.StartProxy(t, "--upstream", member.Addrs(), "--cluster-mode").Addr},
	} {
		for _, proto := range []string{"2", "3"} {
			t.Run(name+" RESP"+proto, func(t *testing.T) {
				bare, proxy := rig.Connect(t, frontend.bare), rig.Connect(t, frontend.proxy)
				bare.Must(t, "HELLO", proto)
				proxy.Must(t, "HELLO", proto)
				bare.Must(t, "FLUSHALL")
				for _, c := range []*rig.Conn{bare, proxy} {
					c.Must(t, "SET", "foo", "1")
				}
				for _, line := range []string{
					"CLUSTER SLOTS", "CLUSTER SHARDS", "CLUSTER NODES", "CLUSTER INFO", "CLUSTER MYID",
					"CLUSTER LINKS", "CLUSTER MYSHARDID",
					"CLUSTER KEYSLOT foo", "CLUSTER COUNTKEYSINSLOT 12182", "CLUSTER GETKEYSINSLOT 12182 10",
					"CLUSTER GETKEYSINSLOT 1 10",
					"CLUSTER COUNTKEYSINSLOT 16384", "CLUSTER COUNTKEYSINSLOT -1",
					"CLUSTER COUNTKEYSINSLOT x", "CLUSTER GETKEYSINSLOT 1 -1",
					"CLUSTER GETKEYSINSLOT 1 x",
					"CLUSTER REPLICAS x", "CLUSTER SLAVES x", "CLUSTER COUNT-FAILURE-REPORTS x",
					"CLUSTER", "CLUSTER NOSUCH", "CLUSTER INFO x", "CLUSTER KEYSLOT", "CLUSTER MEET",
					"CLUSTER SETSLOT 1", "CLUSTER GETKEYSINSLOT 1",
					"READONLY", "GET foo", "READWRITE", "ASKING", "READONLY x", "GET foo",
					"SELECT 0", "SELECT x",
				} {
					args := strings.Fields(line)
					want, got := faceless(bare.Call(t, args...)), faceless(proxy.Call(t, args...))
					if got != want {
						t.Errorf("%s:\n got %s\nwant %s", line, got, want)
					}
				}
				for _, about := range [][2]string{{"server", "redis_mode"}, {"cluster", "cluster_enabled"},
					{"replication", "role"}} {
					want, got := rig.InfoField(bare.Must(t, "INFO", about[0]).Text,
						about[1]), rig.InfoField(proxy.Must(t, "INFO", about[0]).Text, about[1])
					if about[1] == "redis_mode" && want == "" { // the name that Valkey gives it
						want, got = rig.InfoField(bare.Must(t, "INFO", "server").Text,
							"server_mode"), rig.InfoField(proxy.Must(t, "INFO", "server").Text, "server_mode")
					}
					if got != want || want == "" {
						t.Errorf("%s is %s, want %s", about[1], got, want)
					}
				}
				if want, got := bare.Must(t, "HELLO").Field("mode").Text, proxy.Must(t,
					"HELLO").Field("mode").Text; got != want {
					t.Errorf("mode %s, want %s", got, want)
				}
			})
		}
	}
}

// TestAnnounced proves that several proxies tell of one another, the same at each, and that each serves every
// slot.
func TestAnnounced(t *testing.T) {
	t.Parallel()
	c := rig.SharedCluster()
	a, b := fmt.Sprintf("127.0.0.1:%d", rig.FreePort(t)), fmt.Sprintf("127.0.0.1:%d", rig.FreePort(t))
	rig.StartProxy(t, "--upstream", c.Addrs(), "--cluster-mode", "--listen", a, "--cluster-announce", a+","+b)
	rig.StartProxy(t, "--upstream", c.Addrs(), "--cluster-mode", "--listen", b, "--cluster-announce", b+","+a)
	atA, atB := rig.Connect(t, a), rig.Connect(t, b)
	table := atA.Must(t, "CLUSTER", "SLOTS")
	if got := atB.Must(t, "CLUSTER", "SLOTS").String(); got != table.String() || len(table.Elems) != 2 {
		t.Errorf("%s tells of %s, %s of %s", a, table, b, got)
	}
	ids := []string{atA.Must(t, "CLUSTER", "MYID").Text, atB.Must(t, "CLUSTER", "MYID").Text}
	for i, row := range table.Elems {
		if first := row.Elems[0].Int(); first != int64(i*rig.Slots/2) ||
			!slices.Contains(ids, row.Elems[2].Elems[2].Text) {
			t.Errorf("row %d: %s", i, row)
		}
	}
	if ids[0] == ids[1] {
		t.Error("both have one id")
	}
	for i := range 20 {
		atA.Want(t, "OK", "SET", fmt.Sprint("announced:", i), "v")
		atB.Want(t, `"v"`, "GET", fmt.Sprint("announced:", i))
	}
}

// TestNodesStayUnknown looks for the ports of nodes in all that clients are told, also when nodes are lost.
func TestNodesStayUnknown(t *testing.T) {
	t.Parallel()
	c := rig.StartCluster(t, 3, 1)
	straight := rig.Connect(t, c.Nodes[0].Addr)
	for _, line := range []string{"INFO server", "CLUSTER SLOTS", "CLUSTER SHARDS", "CLUSTER NODES"} {
		if line == "CLUSTER SHARDS" && !rig.Since(t, c.Nodes[0].Addr, "redis 7.0") {
			continue
		}
		if v := straight.Call(t, strings.Fields(line)...); !namedIn(c.Nodes[0], v) {
			t.Errorf("%s does not tell of the node itself: %.300s", line, v)
		}
	}
	for _, mode := range []string{"yes", "no"} {
		p := rig.StartProxy(t, "--upstream", c.Addrs(), "--cluster-mode", mode, "--retry-budget", "300ms",
			"--upstream-connect-timeout", "300ms")
		cl := rig.Connect(t, p.Addr)
		for _, line := range []string{
			"INFO", "INFO everything", "ROLE", "CLUSTER SLOTS", "CLUSTER SHARDS", "CLUSTER NODES",
			"CLUSTER INFO", "CLUSTER LINKS", "CLIENT LIST", "CLIENT INFO",
			"HELLO", "COMMAND COUNT", "LOCKCTL STATS", "MEMORY DOCTOR", "LATENCY DOCTOR",
			"PUBSUB CHANNELS *", "ACL WHOAMI",
			"CLUSTER REPLICAS x", "CLUSTER FAILOVER", "RENAME a b",
		} {
			unknownIn(t, c, line, cl.Call(t, strings.Fields(line)...))
		}
		cl.Want(t, "(error) ERR MOVED 1 127.0.0.1:1", "EVAL",
			"return redis.error_reply('MOVED 1 127.0.0.1:1')",
			"0")
	}
	p := rig.StartProxy(t, "--upstream", c.Addrs(), "--retry-budget", "300ms", "--upstream-connect-timeout",
		"300ms")
	cl := rig.Connect(t, p.Addr)
	for _, n := range c.Nodes[:2] {
		n.Kill()
	}
	c.DeadAfter("2000")
	errors := 0
	for i := range 60 {
		for _, args := range [][]string{{"SET", fmt.Sprint("k", i), "v"},
			{"LOCK", fmt.Sprint("l", i), "WAIT", "50"}, {"DBSIZE"}, {"MGET", "a", "b", "c"}, {"GET",
				fmt.Sprint("k", i)}} {
			v := cl.Call(t, args...)
			if v.IsError() {
				errors++
			}
			unknownIn(t, c, strings.Join(args, " "), v)
		}
		if errors > 20 {
			break
		}
	}
	if errors == 0 {
		t.Error("two masters of three are gone, and nothing has failed")
	}
}

// unknownIn looks for the ports of nodes in a reply.
func unknownIn(t *testing.T, c *rig.Cluster, what string, v rig.Reply) {
	t.Helper()
	for _, n := range c.Nodes {
		if namedIn(n, v) {
			t.Errorf("%s tells of the node at port %d: %.300s", what, n.Port, v)
		}
	}
}

// namedIn says that a reply has the port of n, and not only a number that begins with the same digits.
func namedIn(n *rig.Server, v rig.Reply) bool {
	pattern := fmt.Sprintf(`(127\.0\.0\.1[:, ]|port[:= ]|\(integer\) )%[1]d\b|:%[1]d@`, n.Port)
	return regexp.MustCompile(pattern).MatchString(v.String())
}

// TestOneNodeCluster proves that what is cut by slot in front of several masters is cut in front of one, too,
// which refuses keys of several slots like any.
func TestOneNodeCluster(t *testing.T) {
	t.Parallel()
	p := rig.StartProxy(t, "--upstream", rig.StartCluster(t, 1, 0).Addrs())
	c := rig.Connect(t, p.Addr)
	c.Want(t, "OK", "MSET", "a", "1", "b", "2")
	c.Want(t, `["1", (nil), "2"]`, "MGET", "a", "c", "b")
	c.Want(t, "(integer) 2", "EXISTS", "a", "b", "c")
	c.Want(t, "(integer) 2", "DEL", "a", "b", "c")
	c.Want(t, "(error) CROSSSLOT Keys in request don't hash to the same slot", "RENAME", "a", "b")
}
