package commands_test

import (
	"strings"
	"testing"

	"lockproxy/commands"
	"lockproxy/internal/resp"
)

func clusterFake(t *testing.T, announced ...string) *session {
	f := newSession(t)
	f.Server.Cluster, f.Server.InCluster, f.Server.Proxies = true, true, announced
	return f
}

// In front of whatever, by default the proxy is no cluster.
func TestClusterIsDisabled(t *testing.T) {
	f := newSession(t)
	f.Server.InCluster = true
	for line, want := range map[string]string{
		"CLUSTER SLOTS":     "-ERR This instance has cluster support disabled\r\n",
		"CLUSTER HELP":      "-ERR This instance has cluster support disabled\r\n",
		"CLUSTER MEET a 1":  "-ERR This instance has cluster support disabled\r\n",
		"READONLY":          "-ERR This instance has cluster support disabled\r\n",
		"READWRITE":         "-ERR This instance has cluster support disabled\r\n",
		"ASKING":            "-ERR This instance has cluster support disabled\r\n",
		"CLUSTER NOSUCH":    "-ERR unknown subcommand 'NOSUCH'. Try CLUSTER HELP.\r\n",
		"CLUSTER MYSHARDID": "-ERR unknown subcommand 'MYSHARDID'. Try CLUSTER HELP.\r\n",
		"CLUSTER INFO x":    "-ERR wrong number of arguments for 'cluster|info' command\r\n",
	} {
		if got := f.Do(line); got != want {
			t.Errorf("%s: %q", line, got)
		}
	}
}

// text is the reply to a command, and its elements in lines.
func textOf(t *testing.T, f *session, line string) string {
	t.Helper()
	v, rest, err := resp.Parse([]byte(f.Do(line)))
	if err != nil || len(rest) > 0 {
		t.Fatalf("%s: %q, %v", line, f.Answer, err)
	}
	return flat(v)
}

func flat(v resp.Value) string {
	if v.Kind != '*' && v.Kind != '%' {
		return v.Text()
	}
	var parts []string
	for _, e := range v.Elems {
		parts = append(parts, flat(e))
	}
	return "[" + strings.Join(parts, " ") + "]"
}

// Alone, the proxy is the whole cluster, at the address that the client has reached.
func TestClusterOfOne(t *testing.T) {
	f := clusterFake(t)
	id := textOf(t, f, "CLUSTER MYID")
	if len(id) != 40 || strings.Trim(id, "0123456789abcdef") != "" {
		t.Fatalf("id %q", id)
	}
	for line, want := range map[string]string{
		"CLUSTER SLOTS": "[[0 16383 [127.0.0.1 6380 " + id + " []]]]",
		"CLUSTER SHARDS": "[[slots [0 16383] nodes [[id " + id +
			" port 6380 ip 127.0.0.1 endpoint 127.0.0.1 role master replication-offset 0 health online]]]]",
		"CLUSTER NODES": id + " 127.0.0.1:6380@16380 myself,master - 0 0 1 connected 0-16383\n",
		"CLUSTER LINKS": "[]", "CLUSTER REPLICAS " + id: "[]", "CLUSTER SLAVES " + id: "[]",
		"CLUSTER COUNT-FAILURE-REPORTS " + id: "0",
		"CLUSTER KEYSLOT foo":                 "12182", "READONLY": "OK", "READWRITE": "OK", "ASKING": "OK",
	} {
		if got := textOf(t, f, line); got != want {
			t.Errorf("%s: %s\nwant %s", line, got, want)
		}
	}
	for line, want := range map[string]string{
		"CLUSTER REPLICAS x": "-ERR Unknown node x\r\n",
		"CLUSTER MYSHARDID":  "-ERR unknown subcommand 'MYSHARDID'. Try CLUSTER HELP.\r\n",
		"CLUSTER SETSLOT 1 x": "-ERR CLUSTER SETSLOT is not available through lockproxy: it would change " +
			"the cluster behind; connect to a node of that for it\r\n",
		"CLUSTER RESET": "-ERR CLUSTER RESET is not available through lockproxy: it would change " +
			"the cluster behind; connect to a node of that for it\r\n",
	} {
		if got := f.Do(line); got != want {
			t.Errorf("%s: %q", line, got)
		}
	}
	f.Server.Version = "7.2.4"
	if got := textOf(t, f, "CLUSTER MYSHARDID"); got != id {
		t.Errorf("shard id %s", got)
	}
	for _, line := range []string{"CLUSTER MIGRATESLOTS SLOTSRANGE 1 1 NODE x",
		"CLUSTER CANCELSLOTMIGRATIONS ALL", "CLUSTER FLUSHSLOT 1"} {
		f.Server.Product, f.Server.Release = "redis", ""
		if got := f.Do(line); !strings.HasPrefix(got, "-ERR unknown subcommand") {
			t.Errorf("Redis: %s: %q", line, got)
		}
		f.Server.Product, f.Server.Release = "valkey", "9.1.2"
		if got := f.Do(line); !strings.Contains(got, "it would change the cluster behind") {
			t.Errorf("Valkey 9: %s: %q", line, got)
		}
	}
	f.User.LocalAddr = "127.0.0.2:6380"
	if got := textOf(t, f, "CLUSTER MYID"); got == id {
		t.Error("two addresses have one id")
	}
	f.User.LocalAddr = "/run/lockproxy.sock"
	if got := textOf(t, f, "CLUSTER MYID"); got != id {
		t.Error("over a unix socket the id is not that of the first TCP address")
	}
}

func TestClusterInfo(t *testing.T) {
	f := clusterFake(t, "a:1", "b:2")
	f.Server.Unserved = 84
	got := textOf(t, f, "CLUSTER INFO")
	for _, want := range []string{"cluster_state:fail\r\n", "cluster_slots_ok:16300\r\n",
		"cluster_slots_fail:84\r\n", "cluster_known_nodes:2\r\n", "cluster_size:2\r\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in %q", want, got)
		}
	}
	f.Server.Unserved = 0
	if got := textOf(t, f, "CLUSTER INFO"); !strings.HasPrefix(got, "cluster_state:ok\r\n") {
		t.Errorf("%q", got)
	}
	if got := f.Do("HELLO"); !strings.Contains(got, "$4\r\nmode\r\n$7\r\ncluster\r\n") {
		t.Errorf("HELLO %q", got)
	}
	f.Masters[0] = saying("$0\r\n\r\n")
	if got := textOf(t, f, "INFO"); !strings.Contains(got, "redis_mode:cluster\r\n") ||
		!strings.Contains(got, "cluster_enabled:1\r\n") {
		t.Errorf("INFO %q", got)
	}
}

// Several proxies share the slots out in the same way whoever is asked; each takes itself for the one that
// the client has reached, or else for the first of its list.
func TestClusterOfSeveral(t *testing.T) {
	a, b := clusterFake(t, "10.0.0.1:6380", "proxy.example:7000", "[::1]:6380"),
		clusterFake(t, "proxy.example:7000", "[::1]:6380", "10.0.0.1:6380")
	if x, y := textOf(t, a, "CLUSTER SLOTS"), textOf(t, b, "CLUSTER SLOTS"); x != y ||
		strings.Count(x, "[0 5460 ") != 1 || strings.Count(x, "[10922 16383 ") != 1 {
		t.Errorf("%s\n%s", x, y)
	}
	if x, y := textOf(t, a, "CLUSTER MYID"), textOf(t, b, "CLUSTER MYID"); x == y {
		t.Errorf("both are %s", x)
	}
	b.User.LocalAddr = "10.0.0.1:6380"
	if x, y := textOf(t, a, "CLUSTER MYID"), textOf(t, b, "CLUSTER MYID"); x != y {
		t.Errorf("%s and %s", x, y)
	}
	nodes := textOf(t, a, "CLUSTER NODES")
	for _, want := range []string{" 10.0.0.1:6380@16380 myself,master - 0 0 1 connected 0-5460\n",
		" ::1:6380@16380 master - 0 ", " proxy.example:7000@17000 master - 0 ",
		" 3 connected 10922-16383\n"} {
		if !strings.Contains(nodes, want) {
			t.Errorf("no %q in\n%s", want, nodes)
		}
	}
	a.Server.TLS = true
	a.User.Proto = 3
	if got := textOf(t, a, "CLUSTER SHARDS"); !strings.Contains(got,
		" tls-port 7000 ip proxy.example endpoint proxy.example hostname proxy.example role master ") {
		t.Error(got)
	}
}

// Keys of a slot are asked of its master, where slots have masters.
func TestClusterKeysInSlot(t *testing.T) {
	f := clusterFake(t)
	f.Masters = append(f.Masters, f.Masters[0], f.Masters[0])
	for line, want := range map[string]int{
		"CLUSTER COUNTKEYSINSLOT 12182": 12182, "CLUSTER GETKEYSINSLOT 5 10": 5,
		"CLUSTER COUNTKEYSINSLOT x":     commands.AnySlot,
		"CLUSTER COUNTKEYSINSLOT 16384": commands.AnySlot, "CLUSTER GETKEYSINSLOT -1 1": commands.AnySlot,
	} {
		f.Do(line)
		if len(f.Forwarded) != 1 || f.Forwarded[0] != want {
			t.Errorf("%s: sent to %v", line, f.Forwarded)
		}
	}
	f.Server.InCluster = false
	if got := f.Do("CLUSTER COUNTKEYSINSLOT 1"); !strings.HasPrefix(got,
		"-ERR CLUSTER COUNTKEYSINSLOT is not available") {
		t.Errorf("%q", got)
	}
}
