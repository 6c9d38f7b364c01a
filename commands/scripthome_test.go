package commands

import (
	"crypto/sha1"
	"fmt"
	"strings"
	"testing"

	"lockproxy/internal/slot"
)

func TestNamedKey(t *testing.T) {
	table := redis7(t)
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

// A script or a function without keys goes to the node of the key that it names.
func TestScriptsAreAtHome(t *testing.T) {
	table, scripts := redis7(t), NewScripts(10)
	scripts.Add([]byte("return redis.call('get','foo')"))
	scripts.addLibrary([]byte("#!lua name=l\nlocal function f() return redis.call('get','foo') end\n"+
		"redis.register_function('one', f)\nredis.register_function{callback=function() return redis.call('get', 'bar') end, function_name = 'two'}\n"), table)
	foo, bar := slot.Of([]byte("foo")), slot.Of([]byte("bar"))
	for _, test := range []struct {
		args []string
		want int
	}{
		{[]string{"EVAL", "return redis.call('get','foo')", "0"}, foo},
		{[]string{"eval_ro", "return redis.call('get','bar')", "0"}, bar},
		{[]string{"evalsha", fmt.Sprintf("%x", sha1.Sum([]byte("return redis.call('get','foo')"))), "0"}, foo},
		{[]string{"eval", "return 1", "0"}, slot.Of([]byte("e0e1f9fabfc9d4800c877a703b823ac0578ff8db"))},
		{[]string{"EVALSHA", "E0E1F9FABFC9D4800C877A703B823AC0578FF8DB", "0"}, slot.Of([]byte("e0e1f9fabfc9d4800c877a703b823ac0578ff8db"))},
		{[]string{"evalsha", strings.Repeat("İ", 20), "0"}, slot.Of([]byte(strings.Repeat("İ", 20)))}, // of another length in lower case
		{[]string{"FCALL", "one", "0"}, foo},
		{[]string{"fcall_ro", "two", "0"}, bar},
		{[]string{"fcall", "three", "0"}, AnySlot},
		{[]string{"eval", "redis.call('get','foo')"}, AnySlot},
		{[]string{"echo", "redis.call('get','foo')", "0"}, AnySlot},
	} {
		var args [][]byte
		for _, arg := range test.args {
			args = append(args, []byte(arg))
		}
		cmd, _ := table.Resolve(args)
		for range 2 { // it is remembered
			if got := cmd.Home(args, table, scripts); got != test.want {
				t.Errorf("%q: slot %d, want %d", test.args, got, test.want)
			}
		}
	}
}
