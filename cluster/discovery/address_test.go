package discovery

import (
	"fmt"
	"strings"
	"testing"

	"lockproxy/cluster"
	"lockproxy/internal/resp"
)

// What a node says of others is taken where it can be true, whatever command it answers.
func TestAddressesThatNobodyHas(t *testing.T) {
	long := strings.Repeat("x", cluster.MostName+1)
	bulk := func(s string) string { return fmt.Sprintf("$%d\r\n%s\r\n", len(s), s) }
	for _, host := range []string{"/tmp/socket", long} {
		for name, taken := range map[string]func() bool{
			"CLUSTER SLOTS": func() bool {
				row := "*1\r\n*3\r\n:0\r\n:9\r\n*3\r\n" + bulk(host) + ":1\r\n" + bulk("a")
				v, _, _ := resp.Parse([]byte(row))
				shares, err := parseSlots(v, "10.0.0.1:1")
				return err == nil && len(shares) > 0
			},
			"CLUSTER SHARDS": func() bool {
				v, _, err := resp.Parse([]byte("*1\r\n*4\r\n+slots\r\n*2\r\n:0\r\n:9\r\n" +
					"+nodes\r\n*1\r\n*6\r\n+endpoint\r\n" + bulk(host) +
					"+port\r\n:1\r\n+role\r\n+master\r\n"))
				if err != nil {
					t.Fatal(err)
				}
				shares, err := parseShards(v, "10.0.0.1:1")
				return err == nil && len(shares) > 0
			},
			"CLUSTER NODES": func() bool {
				line := "id " + host + ":6379@1,name master - 0 0 1 connected"
				all := cluster.Members(resp.Value{Kind: '$', Str: []byte(line)}, "10.0.0.1")
				return len(addressesOf(all)) > 0
			},
			"an id": func() bool {
				named := []share{{nodes: []cluster.Node{{Addr: "a:1", ID: long}}}}
				return host != long || credible(named) == nil
			},
		} {
			if want := name == "an id" && host != long; taken() != want {
				t.Errorf("%.20s is taken from %s: %v", host, name, !want)
			}
		}
	}
	for _, c := range []struct{ host, port string }{
		{"", "1"}, {"/a", "1"}, {long, "1"}, {"a", ""}, {"a", "0"}, {"a", "65536"}, {"a", "-1"}, {"a", "x"},
	} {
		if addr, ok := cluster.AddrOf(c.host, c.port); ok {
			t.Errorf("%.20s", addr)
		}
	}
	if addr, ok := cluster.AddrOf("::1", "6379"); !ok || addr != "[::1]:6379" {
		t.Error(addr)
	}
}

// An upstream has some thousand nodes at most.
func TestNodesThatNobodyHas(t *testing.T) {
	shares := make([]share, cluster.MostNodes)
	for i := range shares {
		shares[i] = share{i, i, []cluster.Node{{Addr: fmt.Sprint("a:", i)}}}
	}
	if err := credible(shares); err != nil {
		t.Error(err)
	}
	more := share{cluster.MostNodes, cluster.MostNodes, []cluster.Node{{Addr: "b:1"}}}
	if credible(append(shares, more)) == nil {
		t.Error("one more is taken")
	}
	lines := strings.Repeat("id 10.0.0.1:6379@1 master - 0 0 1 connected\n", 2*cluster.MostNodes)
	if all := cluster.Members(resp.Value{Str: []byte(lines)}, ""); len(all) != cluster.MostNodes {
		t.Errorf("%d", len(all))
	}
}

// What one Sentinel of several says of a stranger is not believed, and what it says of a replica no longer
// than that replica is asked.
func TestElect(t *testing.T) {
	const huge = 1e18
	says := func(master string, epoch uint64) sentinelReport {
		return sentinelReport{master: master,
			epoch: epoch}
	}
	for _, c := range []struct {
		what    string
		nodes   string // of the topology
		reports []sentinelReport
		asked   int
		want    string
	}{
		{"as before", "a b", []sentinelReport{says("a", 1), says("a", 1), says("a", 1)}, 3, "a"},
		{"who leads knows it first", "a b", []sentinelReport{says("a", 1), says("b", 2), says("a", 1)}, 3,
			"b a"},
		{"a stranger", "a b", []sentinelReport{says("a", 1), says("x", huge), says("a", 1)}, 3, "a"},
		{"a replica, and a lie", "a b c", []sentinelReport{says("b", 2), says("c", huge), says("b", 2)}, 3,
			"c b"},
		{"one is away", "a b", []sentinelReport{says("a", 1), says("x", huge)}, 3, "a"},
		{"all others are silent", "a b", []sentinelReport{says("x", huge)}, 3, ""},
		{"most know a new one", "a b", []sentinelReport{says("x", 2), says("x", 2), says("a", 1)}, 3, "x a"},
		{"there is one Sentinel", "a b", []sentinelReport{says("x", 2)}, 1, "x"},
		{"at the start most count", "", []sentinelReport{says("a", 1), says("x", huge), says("a", 1)}, 3,
			"a x"},
		{"at the start, one answers", "", []sentinelReport{says("a", 1)}, 3, "a"},
	} {
		var t2 cluster.Topology
		for _, addr := range strings.Fields(c.nodes) {
			t2.Replicas = append(t2.Replicas, &cluster.Node{Addr: addr})
		}
		var got []string
		for _, r := range elect(&t2, c.reports, c.asked) {
			got = append(got, r.master)
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: %q, want %s", c.what, got, c.want)
		}
	}
}
