package cluster

import (
	"strconv"
	"strings"
	"testing"

	"lockproxy/internal/resp"
)

// A server is recognised by what it says of itself, whatever words its product uses.
func TestServerOf(t *testing.T) {
	const valkey = "redis_version:7.2.4 server_name:valkey valkey_version:9.1.2 "
	shards := resp.Value{Kind: '*', Elems: []resp.Value{{Kind: '*',
		Elems: []resp.Value{{Kind: '$', Str: []byte("ssubscribe")}}}}}
	knows := func(names ...string) resp.Value {
		v := resp.Value{Kind: '*'}
		for _, name := range names {
			known := resp.Value{Kind: '*', Int: -1}
			if name != "" {
				known = resp.Value{Kind: '*', Elems: []resp.Value{{Kind: '$', Str: []byte(name)}}}
			}
			v.Elems = append(v.Elems, known)
		}
		return v
	}
	unknown := resp.Value{Kind: '*', Elems: []resp.Value{{Kind: '*', Int: -1}}}
	for _, test := range []struct {
		what, info, hello string
		command           resp.Value
		want              Server
	}{
		{"Redis", "redis_version:7.0.15 redis_mode:cluster run_id:abc",
			"server redis version 7.0.15 mode cluster",
			shards,
			Server{"redis", "7.0.15", "7.0.15", "cluster", "abc", "", true, false, ""}},
		{"Redis without shard channels", "redis_version:6.0.16 redis_mode:standalone",
			"server redis version 6.0.16", unknown,
			Server{"redis", "6.0.16", "6.0.16", "standalone", "", "", false, false, ""}},
		{"Valkey", valkey + "server_mode:sentinel run_id:ab availability_zone:z1",
			"server valkey version 9.1.2 mode sentinel", shards,
			Server{"valkey", "7.2.4", "9.1.2", "sentinel", "ab", "z1", true, false, ""}},
		{"Valkey with DELIFEQ", valkey + "server_mode:cluster", "server valkey version 9.1.2 mode cluster",
			knows("ssubscribe", "delifeq", ""),
			Server{"valkey", "7.2.4", "9.1.2", "cluster", "", "", true, false, "DELIFEQ"}},
		{"Redis with DELEX", "redis_version:8.4.0 redis_mode:cluster",
			"server redis version 8.4.0 mode cluster", knows("ssubscribe", "", "delex"),
			Server{"redis", "8.4.0", "8.4.0", "cluster", "", "", true, false, "DELEX"}},
		{"Valkey, INFO alone", valkey + "server_mode:cluster", "", resp.Value{},
			Server{"valkey", "7.2.4", "9.1.2", "cluster", "", "", false, false, ""}},
		{"Valkey 7.2",
			"redis_version:7.2.4 server_name:valkey valkey_version:7.2.5 redis_mode:standalone", "",
			resp.Value{},
			Server{"valkey", "7.2.4", "7.2.5", "standalone", "", "", false, false, ""}},
		{"Valkey, compatible", valkey + "server_mode:standalone", "server redis version 7.2.4", shards,
			Server{"valkey", "7.2.4", "9.1.2", "standalone", "", "", true, true, ""}},
		{"HELLO alone", "", "server redis version 7.0.15 mode cluster", shards,
			Server{"redis", "7.0.15", "7.0.15", "cluster", "", "", true, false, ""}},
		{"HELLO of Valkey alone", "", "server valkey version 9.1.2 mode cluster", shards,
			Server{"valkey", "7.2.4", "9.1.2", "cluster", "", "", true, false, ""}},
		{"another server", "", "server miniredis version 6.0.5 mode standalone", resp.Value{Kind: '-'},
			Server{"redis", "", "", "standalone", "", "", false, false, ""}},
		{"nothing", "", "", resp.Value{}, Server{Product: "redis"}},
	} {
		info := resp.Value{Kind: '$',
			Str: []byte("# Server\r\n" + strings.ReplaceAll(test.info, " ", "\r\n") +
				"\r\n")}
		hello := resp.Value{Kind: '*'}
		for _, word := range strings.Fields(test.hello) {
			hello.Elems = append(hello.Elems, resp.Value{Kind: '$', Str: []byte(word)})
		}
		if got := ServerOf(info, hello, test.command); got != test.want {
			t.Errorf("%s is %+v", test.what, got)
		}
	}
}

// Several servers are as old as the oldest of them; one that tells nothing does not count.
func TestServersTogether(t *testing.T) {
	server := func(text string) Server {
		if text == "" {
			return Server{}
		}
		product, release, _ := strings.Cut(text, " ")
		if product == "valkey" {
			return Server{Product: product, Version: "7.2.4", Release: release, ShardChannels: true}
		}
		return Server{Product: product, Version: release, Release: release, ShardChannels: release >= "7"}
	}
	for _, test := range [][3]string{
		{"redis 7.0.15", "redis 6.2.14", "redis 6.2.14"},
		{"redis 7.0.15", "redis 7.0.9", "redis 7.0.9"},
		{"", "redis 7.2.0", "redis 7.2.0"},
		{"redis 7.2", "redis 7.2.1", "redis 7.2"},
		{"", "", ""},
		{"redis 8.0.2", "valkey 8.1.1", "valkey 8.1.1"},
		{"valkey 9.1.2", "valkey 8.1.1", "valkey 8.1.1"},
		{"valkey 9.1.2", "redis 7.0.15", "redis 7.0.15"},
	} {
		a, b, want := server(test[0]), server(test[1]), server(test[2])
		a.RunID, a.Zone, b.Mode = "a", "z", "cluster"
		if got := a.With(b); got.Version != want.Version || got.Release != want.Release ||
			got.Product != want.Product ||
			got.ShardChannels != want.ShardChannels || got.RunID+got.Zone+got.Mode != "" {
			t.Errorf("%q, %q: %+v", test[0], test[1], got)
		}
		if got, back := a.With(b), b.With(a); got != back {
			t.Errorf("%q, %q: %+v, the other way %+v", test[0], test[1], got, back)
		}
	}
	with := func(command string) Server {
		return Server{Product: "valkey", Version: "7.2.4", Release: "9.1.2", DeleteIf: command}
	}
	if got := with("DELIFEQ").With(with("DELIFEQ")); got.DeleteIf != "DELIFEQ" {
		t.Errorf("both have DELIFEQ: %+v", got)
	}
	for _, other := range []string{"", "DELEX"} {
		if got := with("DELIFEQ").With(with(other)); got.DeleteIf != "" {
			t.Errorf("one has DELIFEQ, the other %q: %+v", other, got)
		}
	}
	if got := server("redis 8.0.2").With(server("redis 6.2.14")); got.ShardChannels {
		t.Errorf("one of them has no shard channels: %+v", got)
	}
}

// A version is compared by its numbers, of which some may be missing.
func TestServerAtLeast(t *testing.T) {
	for text, want := range map[string]bool{"7.2.4": true, "7.2": true, "8.0.0-rc1": true, "10.0.0": true,
		"255.255.255": true,
		"7.0.15":      false, "6.9": false, "7": false, "": false, "x": false} {
		if got := (Server{Version: text}).AtLeast(7, 2); got != want {
			t.Errorf("%s is 7.2 or newer: %s", text, strconv.FormatBool(got))
		}
	}
}

// A release of Valkey is recognised by its own version.
func TestServerIsValkey(t *testing.T) {
	for s, want := range map[Server]bool{
		{Product: "valkey", Version: "7.2.4", Release: "9.1.2"}: true,
		{Product: "valkey", Version: "7.2.4", Release: "9.0.4"}: false,
		{Product: "valkey", Version: "7.2.4"}:                   false,
		{Product: "redis", Version: "9.2.0", Release: "9.2.0"}:  false,
	} {
		if got := s.IsValkey(9, 1); got != want {
			t.Errorf("%+v is Valkey 9.1: %v", s, got)
		}
	}
}
