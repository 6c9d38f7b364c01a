package integration

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// faceless takes out of a reply what differs from one node to the next: its id, its address, its
// epoch.
func faceless(v reply) string {
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

// TestFaces compares what the proxy looks like with the server that it looks like, in both protocols: one Redis by default, with
// cluster-mode yes a cluster of one node.
func TestFaces(t *testing.T) {
	t.Parallel()
	alone, member := startRedis(t), startCluster(t, 1, 0)
	for name, face := range map[string]struct {
		bare, proxy string
	}{
		"one Redis": {alone.addr, startProxy(t, "--upstream", member.addrs()).addr},
		"cluster":   {member.nodes[0].addr, startProxy(t, "--upstream", member.addrs(), "--cluster-mode").addr},
	} {
		for _, proto := range []string{"2", "3"} {
			t.Run(name+" RESP"+proto, func(t *testing.T) {
				bare, proxy := connect(t, face.bare), connect(t, face.proxy)
				bare.must(t, "HELLO", proto)
				proxy.must(t, "HELLO", proto)
				bare.must(t, "FLUSHALL")
				for _, c := range []*conn{bare, proxy} {
					c.must(t, "SET", "foo", "1")
				}
				for _, line := range []string{
					"CLUSTER SLOTS", "CLUSTER SHARDS", "CLUSTER NODES", "CLUSTER INFO", "CLUSTER MYID", "CLUSTER LINKS", "CLUSTER MYSHARDID",
					"CLUSTER KEYSLOT foo", "CLUSTER COUNTKEYSINSLOT 12182", "CLUSTER GETKEYSINSLOT 12182 10", "CLUSTER GETKEYSINSLOT 1 10",
					"CLUSTER COUNTKEYSINSLOT 16384", "CLUSTER COUNTKEYSINSLOT -1", "CLUSTER COUNTKEYSINSLOT x", "CLUSTER GETKEYSINSLOT 1 -1", "CLUSTER GETKEYSINSLOT 1 x",
					"CLUSTER REPLICAS x", "CLUSTER SLAVES x", "CLUSTER COUNT-FAILURE-REPORTS x",
					"CLUSTER", "CLUSTER NOSUCH", "CLUSTER INFO x", "CLUSTER KEYSLOT", "CLUSTER MEET", "CLUSTER SETSLOT 1", "CLUSTER GETKEYSINSLOT 1",
					"READONLY", "GET foo", "READWRITE", "ASKING", "READONLY x", "GET foo", "SELECT 0", "SELECT x",
				} {
					args := strings.Fields(line)
					if want, got := faceless(bare.call(t, args...)), faceless(proxy.call(t, args...)); got != want {
						t.Errorf("%s:\n got %s\nwant %s", line, got, want)
					}
				}
				for _, about := range [][2]string{{"server", "redis_mode"}, {"cluster", "cluster_enabled"}, {"replication", "role"}} {
					want, got := infoField(bare.must(t, "INFO", about[0]).text, about[1]), infoField(proxy.must(t, "INFO", about[0]).text, about[1])
					if got != want || want == "" {
						t.Errorf("%s is %s, want %s", about[1], got, want)
					}
				}
				if want, got := bare.must(t, "HELLO").field("mode").text, proxy.must(t, "HELLO").field("mode").text; got != want {
					t.Errorf("mode %s, want %s", got, want)
				}
			})
		}
	}
}

// TestAnnounced proves that several proxies tell of one another, the same at each, and that each serves every slot.
func TestAnnounced(t *testing.T) {
	t.Parallel()
	c := sharedCluster()
	a, b := fmt.Sprintf("127.0.0.1:%d", freePort(t)), fmt.Sprintf("127.0.0.1:%d", freePort(t))
	startProxy(t, "--upstream", c.addrs(), "--cluster-mode", "--listen", a, "--cluster-announce", a+","+b)
	startProxy(t, "--upstream", c.addrs(), "--cluster-mode", "--listen", b, "--cluster-announce", b+","+a)
	atA, atB := connect(t, a), connect(t, b)
	table := atA.must(t, "CLUSTER", "SLOTS")
	if got := atB.must(t, "CLUSTER", "SLOTS").String(); got != table.String() || len(table.elems) != 2 {
		t.Errorf("%s tells of %s, %s of %s", a, table, b, got)
	}
	ids := []string{atA.must(t, "CLUSTER", "MYID").text, atB.must(t, "CLUSTER", "MYID").text}
	for i, row := range table.elems {
		if first := row.elems[0].int(); first != int64(i*slots/2) || !slices.Contains(ids, row.elems[2].elems[2].text) {
			t.Errorf("row %d: %s", i, row)
		}
	}
	if ids[0] == ids[1] {
		t.Error("both have one id")
	}
	for i := range 20 {
		atA.want(t, "OK", "SET", fmt.Sprint("announced:", i), "v")
		atB.want(t, `"v"`, "GET", fmt.Sprint("announced:", i))
	}
}

// TestNodesStayUnknown looks for the ports of nodes in all that clients are told, also when nodes are lost.
func TestNodesStayUnknown(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 3, 1)
	straight := connect(t, c.nodes[0].addr)
	for _, line := range []string{"INFO server", "CLUSTER SLOTS", "CLUSTER SHARDS", "CLUSTER NODES"} {
		if v := straight.call(t, strings.Fields(line)...); !c.nodes[0].namedIn(v) {
			t.Errorf("%s does not tell of the node itself: %.300s", line, v)
		}
	}
	for _, mode := range []string{"yes", "no"} {
		p := startProxy(t, "--upstream", c.addrs(), "--cluster-mode", mode, "--retry-budget", "300ms", "--upstream-connect-timeout", "300ms")
		cl := connect(t, p.addr)
		for _, line := range []string{
			"INFO", "INFO everything", "ROLE", "CLUSTER SLOTS", "CLUSTER SHARDS", "CLUSTER NODES", "CLUSTER INFO", "CLUSTER LINKS", "CLIENT LIST", "CLIENT INFO",
			"HELLO", "COMMAND COUNT", "LOCKCTL STATS", "MEMORY DOCTOR", "LATENCY DOCTOR", "PUBSUB CHANNELS *", "ACL WHOAMI",
			"CLUSTER REPLICAS x", "CLUSTER FAILOVER", "RENAME a b",
		} {
			c.unknownIn(t, line, cl.call(t, strings.Fields(line)...))
		}
		cl.want(t, "(error) ERR MOVED 1 127.0.0.1:1", "EVAL", "return redis.error_reply('MOVED 1 127.0.0.1:1')", "0")
	}
	p := startProxy(t, "--upstream", c.addrs(), "--retry-budget", "300ms", "--upstream-connect-timeout", "300ms")
	cl := connect(t, p.addr)
	for _, n := range c.nodes[:2] {
		n.kill()
	}
	errors := 0
	for i := range 60 {
		for _, args := range [][]string{{"SET", fmt.Sprint("k", i), "v"}, {"LOCK", fmt.Sprint("l", i), "WAIT", "50"}, {"DBSIZE"}, {"MGET", "a", "b", "c"}, {"GET", fmt.Sprint("k", i)}} {
			v := cl.call(t, args...)
			if v.isError() {
				errors++
			}
			c.unknownIn(t, strings.Join(args, " "), v)
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
func (c *redisCluster) unknownIn(t *testing.T, what string, v reply) {
	t.Helper()
	for _, n := range c.nodes {
		if n.namedIn(v) {
			t.Errorf("%s tells of the node at port %d: %.300s", what, n.port, v)
		}
	}
}

// namedIn says that a reply has the port of n, and not only a number that begins with the same digits.
func (n *server) namedIn(v reply) bool {
	pattern := fmt.Sprintf(`(127\.0\.0\.1[:, ]|port[:= ]|\(integer\) )%[1]d\b|:%[1]d@`, n.port)
	return regexp.MustCompile(pattern).MatchString(v.String())
}

// TestOneNodeCluster proves that what is cut by slot in front of several masters is cut in front of one, too, which refuses keys
// of several slots like any.
func TestOneNodeCluster(t *testing.T) {
	t.Parallel()
	p := startProxy(t, "--upstream", startCluster(t, 1, 0).addrs())
	c := connect(t, p.addr)
	c.want(t, "OK", "MSET", "a", "1", "b", "2")
	c.want(t, `["1", (nil), "2"]`, "MGET", "a", "c", "b")
	c.want(t, "(integer) 2", "EXISTS", "a", "b", "c")
	c.want(t, "(integer) 2", "DEL", "a", "b", "c")
	c.want(t, "(error) CROSSSLOT Keys in request don't hash to the same slot", "RENAME", "a", "b")
}
