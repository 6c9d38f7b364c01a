package cluster_test

import (
	"strings"
	"testing"

	"lockproxy/cluster"
	"lockproxy/internal/resp"
)

// Each line of CLUSTER NODES says where a node is, as far as one can be there.
func TestMembers(t *testing.T) {
	for _, c := range []struct{ line, addr, named string }{
		{"a 10.0.0.1:6379@16379,one.example,shard-id=f master - 0 0 1 connected", "10.0.0.1:6379",
			"one.example:6379"},
		{"a 10.0.0.1:6379@16379,,shard-id=f slave b 0 0 1 connected", "10.0.0.1:6379", ""},
		{"a 10.0.0.1:6379@16379,shard-id=f slave b 0 0 1 connected", "10.0.0.1:6379", ""},
		{"a 10.0.0.1:6379 master - 0 0 1 connected", "10.0.0.1:6379", ""},
		{"a ::1:7000@17000 master - 0 0 1 connected", "[::1]:7000", ""},
		{"a :6380@1 myself,master - 0 0 1 connected 7 8-9 [7->-b]", "10.0.0.9:6380", ""},
		{"a :0@0 master,fail,noaddr - 0 0 1 disconnected", "", ""},
		{"a 10.0.0.1:6379@1 handshake - 0 0 1 connected", "", ""},
		{"a /tmp/socket:6379@1,/tmp/socket master - 0 0 1 connected", "", ""},
		{"a 10.0.0.1:6379@1,/tmp/socket master - 0 0 1 connected", "10.0.0.1:6379", ""},
		{"a 10.0.0.1:99999@1,one.example master - 0 0 1 connected", "", ""},
		{"a nonsense master - 0 0 1 connected", "", ""},
	} {
		all := cluster.Members(resp.Value{Kind: '$', Str: []byte(c.line + "\n")}, "10.0.0.9")
		if len(all) != 1 {
			t.Fatalf("%s: %+v", c.line, all)
		}
		m := all[0]
		if m.ID != "a" || m.Epoch != "1" || m.Addr() != c.addr || m.Named() != c.named ||
			m.Is("myself") != strings.Contains(c.line, "myself") || m.Is("myself") != (len(m.Slots) == 3) ||
			m.Is("fail") != strings.Contains(c.line, "fail") {
			t.Errorf("%s: %+v", c.line, m)
		}
	}
	for _, v := range []resp.Value{
		{Kind: '-', Str: []byte("a 10.0.0.1:6379 master - 0 0 1 connected")},
		{Kind: '$', Str: []byte("a 10.0.0.1:6379 master - 0 0 connected\nnonsense\n\n")},
		{Kind: '*', Int: -1},
	} {
		if all := cluster.Members(v, ""); len(all) > 0 {
			t.Errorf("%q: %+v", v.Str, all)
		}
	}
}
