package discovery

import (
	"lockproxy/internal/resp"
	"reflect"
	"testing"
)

func TestParseMembers(t *testing.T) {
	text := "a 10.0.0.1:6379@16379,one.example,shard-id=f myself,master - 0 0 1 connected 0-16383\n" +
		"b 10.0.0.2:6379@16379 master - 0 0 2 connected\n" +
		"c ::1:7000@17000 slave a 0 0 2 connected\n" +
		"d :0@0 master,fail,noaddr - 0 0 3 disconnected\n" +
		"e 10.0.0.9:6379@16379 handshake - 0 0 0 connected\n" +
		"f :6380 myself,master - 0 0 1 connected\n" +
		"g 10.0.0.4:6381@16381,,shard-id=f master - 0 0 2 connected\n" +
		"h 10.0.0.5:6381@16381 master - 0 0 2 connected\n" +
		"nonsense\n\n"
	want := map[string]string{"?:6379": "10.0.0.2:6379", "?:7000": "[::1]:7000", "?:6380": "10.0.0.3:6380",
		"?:6381": ""}
	for _, addr := range []string{"10.0.0.1:6379", "one.example:6379", "10.0.0.2:6379", "[::1]:7000",
		"10.0.0.3:6380", "10.0.0.4:6381", "10.0.0.5:6381"} {
		want[addr] = addr
	}
	v := resp.Value{Kind: '$', Str: []byte(text)}
	if got := parseMembers(v, "10.0.0.3:6379"); !reflect.DeepEqual(got, want) {
		t.Errorf("%v", got)
	}
}
