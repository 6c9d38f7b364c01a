package discovery

import (
	"reflect"
	"slices"
	"testing"

	"lockproxy/cluster"
	"lockproxy/internal/resp"
)

func TestAddressesOfMembers(t *testing.T) {
	text := "a 10.0.0.1:6379@16379,one.example,shard-id=f myself,master - 0 0 1 connected 0-16383\n" +
		"b 10.0.0.2:6379@16379 master - 0 0 2 connected\n" +
		"c ::1:7000@17000 slave a 0 0 2 connected\n" +
		"d :0@0 master,fail,noaddr - 0 0 3 disconnected\n" +
		"e 10.0.0.9:6379@16379 handshake - 0 0 0 connected\n" +
		"f :6380 myself,master - 0 0 1 connected\n" +
		"g 10.0.0.4:6381@16381,,shard-id=f master - 0 0 2 connected\n" +
		"h 10.0.0.5:6381@16381 master - 0 0 2 connected\n" +
		"i 10.0.0.6:6382@16382,/tmp/socket master - 0 0 2 connected\n" +
		"nonsense\n\n"
	want := map[string]string{"?:6379": "10.0.0.2:6379", "?:7000": "[::1]:7000", "?:6380": "10.0.0.3:6380",
		"?:6381": "", "?:6382": "10.0.0.6:6382"}
	for _, addr := range []string{"10.0.0.1:6379", "one.example:6379", "10.0.0.2:6379", "[::1]:7000",
		"10.0.0.3:6380", "10.0.0.4:6381", "10.0.0.5:6381", "10.0.0.6:6382"} {
		want[addr] = addr
	}
	v := resp.Value{Kind: '$', Str: []byte(text)}
	if got := addressesOf(cluster.Members(v, "10.0.0.3")); !reflect.DeepEqual(got, want) {
		t.Errorf("%v", got)
	}
}

// CLUSTER SLOTS hides replicas without an offset. They are called as their masters are.
func TestAddHidden(t *testing.T) {
	nodes := cluster.Members(resp.Value{Kind: '$', Str: []byte(
		"a 10.0.0.1:1@2,one.example master - 0 0 1 connected 0-16383\n" +
			"shown 10.0.0.2:1@2,two.example slave a 0 0 2 connected\n" +
			"young 10.0.0.3:1@2,three.example slave a 0 0 2 connected\n" +
			"dead 10.0.0.4:1@2,four.example slave,fail a 0 0 2 connected\n" +
			"lost :0@0 slave,noaddr a 0 0 2 connected\n" +
			"nameless 10.0.0.5:6@7 slave a 0 0 2 connected\n" +
			"other 10.0.0.6:1@2 slave b 0 0 2 connected\n")}, "10.0.0.9")
	for host, want := range map[string][]string{
		"10.0.0.1":    {"10.0.0.2:1", "10.0.0.3:1", "10.0.0.5:6"},
		"one.example": {"10.0.0.2:1", "three.example:1", "10.0.0.5:6"},
		"nat.example": {"10.0.0.2:1", "nat.example:1", "nat.example:6"}, // nodes do not tell where they are
	} {
		shares := []share{{0, 9, []cluster.Node{
			{Addr: host + ":1", ID: "a"}, {Addr: "10.0.0.2:1", ID: "shown"},
		}}}
		addHidden(shares, nodes)
		var got []string
		for _, n := range shares[0].nodes[1:] {
			got = append(got, n.Addr)
		}
		if !slices.Equal(got, want) {
			t.Errorf("master at %s: %v", host, got)
		}
	}
}
