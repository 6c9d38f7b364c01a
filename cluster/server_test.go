package cluster

import (
	"strings"
	"testing"

	"lockproxy/internal/resp"
)

// A server is known by what it says of itself, whatever its product calls that.
func TestServerOf(t *testing.T) {
	for text, want := range map[string]Server{
		"redis_version:7.0.15 redis_mode:cluster run_id:abc":                                         {"redis", "7.0.15", "cluster", "abc"},
		"redis_version:7.2.4 server_name:valkey valkey_version:8.1.0 server_mode:sentinel run_id:ab": {"valkey", "7.2.4", "sentinel", "ab"},
		"redis_version:7.2.4 server_name:valkey valkey_version:7.2.5 redis_mode:standalone":          {"valkey", "7.2.4", "standalone", ""},
		"": {Product: "redis"},
	} {
		info := resp.Value{Kind: '$', Str: []byte("# Server\r\n" + strings.ReplaceAll(text, " ", "\r\n") + "\r\n")}
		if got := ServerOf(info); got != want {
			t.Errorf("%q is %+v", text, got)
		}
	}
}
