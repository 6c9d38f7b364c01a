package discovery

import (
	"testing"

	"lockproxy/cluster/internal/servers"
	"lockproxy/internal/resp"
)

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
