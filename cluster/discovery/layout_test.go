package discovery

import (
	"slices"
	"testing"

	"lockproxy/cluster"
	"lockproxy/cluster/internal/servers"
	"lockproxy/internal/resp"
	"lockproxy/internal/slot"
)

func TestParseSlots(t *testing.T) {
	const from = "10.9.9.9:7000"
	for _, test := range []struct {
		name, reply string
		want        []string // addresses and ids in turn; nil: refused
	}{
		{"6.2",
			servers.Reply("*1", "*4", ":0", ":16383", "*3", "$8", "10.0.0.1", ":6379", "$1", "a", "*3", "$8",
				"10.0.0.2", ":6380", "$1", "b"),
			[]string{"10.0.0.1:6379", "a", "10.0.0.2:6380", "b"}},
		{"7.0, host name preferred",
			servers.Reply("*1", "*3", ":5", ":5", "*4", "$2", "h1", ":6379", "$1", "a",
				"*2", "$2", "ip", "$8", "10.0.0.1"),
			[]string{"h1:6379", "a"}},
		{"7.0, host name preferred but unknown",
			servers.Reply("*1", "*3", ":5", ":5", "*4", "$1", "?", ":6379",
				"$1", "a", "*2", "$2", "ip", "$8", "10.0.0.1"),
			[]string{"10.0.0.1:6379", "a"}},
		{"unknown and nothing beside",
			servers.Reply("*1", "*3", ":5", ":5", "*4", "$1", "?", ":6379", "$1", "a",
				"*0"), []string{"10.9.9.9:6379", "a"}},
		{"unknown endpoint preferred",
			servers.Reply("*1", "*3", ":5", ":5", "*4", "$-1", ":6379", "$1", "a", "*0"),
			[]string{"10.9.9.9:6379", "a"}},
		{"node without an address yet",
			servers.Reply("*1", "*3", ":5", ":5", "*3", "$0", "", ":6379", "$1", "a"),
			[]string{"10.9.9.9:6379", "a"}},
		{"IPv6", servers.Reply("*1", "*3", ":5", ":5", "*3", "$3", "::1", ":6379", "$1", "a"),
			[]string{"[::1]:6379", "a"}},
		{"a path in place of a host",
			servers.Reply("*1", "*3", ":5", ":5", "*3", "$5", "/sock", ":6379", "$1", "a"), []string{}},
		{"3.0, no ids", servers.Reply("*1", "*3", ":5", ":5", "*2", "$3", "::1", ":6379"),
			[]string{"[::1]:6379", ""}},
		{"nothing", servers.Reply("*0"), []string{}},
		{"error", servers.Reply("-ERR This instance has cluster support disabled"), nil},
		{"row too short", servers.Reply("*1", "*2", ":0", ":5"), nil},
		{"slots in the wrong order", servers.Reply("*1", "*3", ":6", ":5", "*2", "$1", "a", ":6379"), nil},
		{"slot out of range", servers.Reply("*1", "*3", ":0", ":16384", "*2", "$1", "a", ":6379"), nil},
		{"slot below zero", servers.Reply("*1", "*3", ":-1", ":1", "*2", "$1", "a", ":6379"), nil},
		{"slot twice",
			servers.Reply("*2", "*3", ":0", ":5", "*2", "$1", "a", ":1", "*3", ":5", ":6", "*2", "$1",
				"b", ":1"), nil},
		// Its nodes.conf is lost, and another node answers where it was: others name it without an address.
		{"a replica without an address",
			servers.Reply("*1", "*4", ":0", ":5", "*3", "$1", "a", ":1", "$1", "a", "*3", "$0", "", ":0",
				"$1", "x"), []string{"a:1", "a"}},
		{"a master without an address",
			servers.Reply("*2", "*4", ":0", ":5", "*3", "$0", "", ":0", "$1", "a", "*3", "$1", "x", ":1",
				"$1", "x", "*3", ":6", ":9", "*3", "$1", "b", ":1", "$1", "b"), []string{"b:1", "b"}},
		{"port out of range",
			servers.Reply("*1", "*3", ":0", ":5", "*2", "$1", "a", ":65536"), []string{}},
		{"node is text", servers.Reply("*1", "*3", ":0", ":5", "$1", "a"), nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			v, _, err := resp.Parse([]byte(test.reply))
			if err != nil {
				t.Fatal(err)
			}
			shares, err := parseSlots(v, from)
			if (err != nil) != (test.want == nil) {
				t.Fatal(err)
			}
			got := []string{}
			for _, s := range shares {
				for _, n := range s.nodes {
					got = append(got, n.Addr, n.ID)
				}
			}
			if test.want != nil && !slices.Equal(got, test.want) {
				t.Errorf("%q", got)
			}
		})
	}
}

func FuzzParseSlots(f *testing.F) {
	f.Add([]byte(servers.Reply("*1", "*3", ":5", ":5", "*4", "$1", "?", ":6379", "$1", "a", "*2", "$2", "ip",
		"$8", "10.0.0.1")))
	f.Add([]byte(servers.Reply("*2", "*3", ":0", ":5", "*2", "$1", "a", ":1", "*3", ":6",
		":16383", "*2", "$-1",
		":1")))
	f.Fuzz(func(t *testing.T, b []byte) {
		v, _, err := resp.Parse(b)
		if err != nil {
			return
		}
		shares, err := parseSlots(v, "127.0.0.1:7000")
		if err != nil {
			return
		}
		view := view{kind: cluster.Cluster, shares: shares}
		top := view.topology(&cluster.Topology{}, cluster.Server{})
		if top.Served() != view.served() || top.Served() > slot.Count {
			t.Errorf("%d slots of %d", top.Served(), view.served())
		}
		for _, n := range slices.Concat(top.Masters, top.Replicas) {
			if hostOf(n.Addr) == "" {
				t.Errorf("a node at %q", n.Addr)
			}
		}
		if len(shares) > 0 && view.topology(top, cluster.Server{}) != top {
			t.Error("the same view makes another topology")
		}
	})
}

// Where the nodes of CLUSTER SHARDS are reached, by their preferred endpoint.
func TestShardNodes(t *testing.T) {
	for _, c := range []struct{ endpoint, want string }{
		{"h1", "h1:6379"},
		{"10.0.0.1", "10.0.0.1:6379"},
		{"?", "10.0.0.1:6379"}, // a host name is preferred, and there is none
		{"", "10.9.9.9:6379"},
	} {
		node := resp.AppendBulks(nil, "id", "a", "port", "6379", "ip", "10.0.0.1", "endpoint", c.endpoint,
			"role", "master", "health", "online")
		v, _, err := resp.Parse([]byte(servers.Reply("*1", "*12") + string(node)))
		if err != nil {
			t.Fatal(err)
		}
		nodes, mastered := shardNodes(v.Elems, "10.9.9.9:7000")
		if !mastered || len(nodes) != 1 || nodes[0].Addr != c.want {
			t.Errorf("endpoint %q: %+v, want %s", c.endpoint, nodes, c.want)
		}
	}
}
