package commands

import (
	"os"
	"testing"

	"lockproxy/internal/slot"
)

func TestNamedKey(t *testing.T) {
	command, err := os.ReadFile("testdata/command-7.0.15.resp")
	if err != nil {
		t.Fatal(err)
	}
	table, err := NewTable(command, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for source, key := range map[string]string{
		"return 1":                          "",
		"return redis.call('time')":         "",
		"return redis.call('get', KEYS[1])": "",
		"return redis.call('get','x')":      "x",
		"redis.pcall('randomkey'); redis.call( \"set\" , \"x\", 'ciao')":        "x",
		"local a = redis.call('lpush', 'l', unpack(a))":                         "l",
		"redis.call('publish', 'channel', 'x') return redis.call('del', 'key')": "key",
		"redis.call('object', 'encoding', 'k')":                                 "k",
		"redis.call('eval', 'return 1', '2', 'a', 'b')":                         "a",
		"redis.call('get', 'a\\'b') redis.call('nosuch', 'a')":                  "",
		"redis.call('get', 'x' .. ARGV[1])":                                     "x", // a guess
		"redis.call(":                                                           "",
	} {
		want := AnySlot
		if key != "" {
			want = slot.Of([]byte(key))
		}
		if got := table.namedKey([]byte(source)); got != want {
			t.Errorf("%s: slot %d, want %d", source, got, want)
		}
	}
}
