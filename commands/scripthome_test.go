package commands_test

import (
	"crypto/sha1"
	"fmt"
	"strings"
	"testing"

	"lockproxy/commands"
	"lockproxy/internal/slot"
)

// A script or a function without keys goes to the node of the key that it names.
func TestScriptsAreAtHome(t *testing.T) {
	table, scripts := redis7(t), commands.NewScripts(10)
	scripts.Add([]byte("return redis.call('get','foo')"))
	scripts.AddLibrary([]byte("#!lua name=l\nlocal function f() return redis.call('get','foo') end\n"+
		"redis.register_function('one', f)\nredis.register_function{callback=function() return "+
		"redis.call('get', 'bar') end, function_name = 'two'}\n"), table)
	foo, bar := slot.Of([]byte("foo")), slot.Of([]byte("bar"))
	for _, test := range []struct {
		args []string
		want int
	}{
		{[]string{"EVAL", "return redis.call('get','foo')", "0"}, foo},
		{[]string{"eval_ro", "return redis.call('get','bar')", "0"}, bar},
		{[]string{"evalsha", fmt.Sprintf("%x", sha1.Sum([]byte("return redis.call('get','foo')"))), "0"},
			foo},
		{[]string{"eval", "return 1", "0"}, slot.Of([]byte("e0e1f9fabfc9d4800c877a703b823ac0578ff8db"))},
		{[]string{"EVALSHA", "E0E1F9FABFC9D4800C877A703B823AC0578FF8DB", "0"},
			slot.Of([]byte("e0e1f9fabfc9d4800c877a703b823ac0578ff8db"))},
		// of another length in lower case
		{[]string{"evalsha", strings.Repeat("İ", 20), "0"}, slot.Of([]byte(strings.Repeat("İ", 20)))},
		{[]string{"FCALL", "one", "0"}, foo},
		{[]string{"fcall_ro", "two", "0"}, bar},
		{[]string{"fcall", "three", "0"}, commands.AnySlot},
		{[]string{"eval", "redis.call('get','foo')"}, commands.AnySlot},
		{[]string{"echo", "redis.call('get','foo')", "0"}, commands.AnySlot},
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
