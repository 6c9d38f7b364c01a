package cluster

import (
	"strings"
	"testing"

	"lockproxy/internal/resp"
)

func TestEvicts(t *testing.T) {
	for _, c := range []struct {
		info   string
		evicts bool
	}{
		{"maxmemory:100\r\nmaxmemory_policy:allkeys-lru\r\n", true},
		{"maxmemory:100\r\nmaxmemory_policy:volatile-ttl\r\n", true},
		{"maxmemory:100\r\nmaxmemory_policy:noeviction\r\n", false},
		{"maxmemory:0\r\nmaxmemory_policy:allkeys-lru\r\n", false},
		{"maxmemory:100\r\n", false}, // it does not tell
		{"", false},
	} {
		err := MemoryOf(resp.Value{Str: []byte("# Memory\r\nused_memory:5\r\n" + c.info)}).Evicts()
		if (err != nil) != c.evicts {
			t.Errorf("%q: %v", c.info, err)
		}
		if err != nil && !strings.Contains(err.Error(), "noeviction") {
			t.Errorf("no remedy in %v", err)
		}
	}
}
