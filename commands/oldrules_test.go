package commands_test

import (
	"fmt"
	"strings"
	"testing"

	"lockproxy/commands"
	"lockproxy/internal/resp"

	"github.com/tidwall/redcon"
)

// userOf6 is the reply to ACL GETUSER of Redis 6.2.
func userOf6(rules, keys, channels string) []byte {
	b := redcon.AppendArray(nil, 10)
	b = redcon.AppendArray(redcon.AppendBulkString(b, "flags"), 1)
	b = redcon.AppendBulkString(b, "on")
	b = redcon.AppendArray(redcon.AppendBulkString(b, "passwords"), 0)
	b = redcon.AppendBulkString(redcon.AppendBulkString(b, "commands"), rules)
	for _, patterns := range [][2]string{{"keys", keys}, {"channels", channels}} {
		all := strings.Fields(patterns[1])
		b = redcon.AppendArray(redcon.AppendBulkString(b, patterns[0]), len(all))
		b = resp.AppendBulks(b, all...)
	}
	return b
}

// Where there is no DRYRUN the rules decide, and what they leave open is denied.
func TestRulesOfRedis6(t *testing.T) {
	table := redis7(t)
	u := commands.NewRightsOf("ann", &fakeServer{Version: "6.2.14"}, table)
	if got := string(u.Ask(commands.NewRight("GET",
		"x"))); got != "*3\r\n$3\r\nACL\r\n$7\r\nGETUSER\r\n$3\r\nann\r\n" {
		t.Errorf("asks %q", got)
	}
	const keys, channels = "app:* lock:*", "app:* news"
	for _, test := range []struct {
		rules, command string
		denied         string // "": it is allowed; else a word of the error
	}{
		{"-@all", "PING", "'ping'"},
		{"-@all +ping", "PING", ""},
		{"+@all", "CONFIG SET * *", ""},
		{"+@all -@dangerous", "MONITOR", "'monitor'"},
		{"+@all -@dangerous +monitor", "MONITOR", ""},
		{"-@all +@dangerous", "MONITOR", ""},
		{"-@all +config|get", "CONFIG GET *", ""},
		{"-@all +config|get", "CONFIG SET * *", "'config'"},
		{"-@all +config|get -config", "CONFIG GET *", "'config'"},
		{"-@all +select|0", "SELECT 0", ""},
		{"-@all +select|0", "SELECT 1", "'select'"},
		{"-@all +get", "GET app:1", ""},
		{"-@all +get", "GET other", "keys"},
		{"-@all +set", "SET lock:{x} * GET", ""},
		{"+@all", "MSET app:1 * other *", "keys"},
		{"+@all", "MSET app:1 * app:2 *", ""},
		{"+@all", "SUBSCRIBE app:1 news", ""},
		{"+@all", "SUBSCRIBE app:1 other", "channels"},
		{"+@all", "PSUBSCRIBE app:*", ""},
		{"+@all", "PSUBSCRIBE app:1*", "channels"},
		{"+@all", "PUBLISH news other", ""},
		{"+@all", "PUBLISH other news", "channels"},
		{"+@all -publish", "PUBLISH news *", "'publish'"},
		{"+@all", "SORT app:1", "'sort'"}, // there may be keys behind GET and STORE
		{"+@all", "NONSENSE", "unknown command"},
	} {
		var r commands.Right
		for _, word := range strings.Fields(test.command) {
			r = append(r, []byte(word))
		}
		c := table.Lookup([]byte("ping"))
		got := string(u.Judge(c, r, r, userOf6(test.rules, keys, channels)).Refusal)
		if (got == "") != (test.denied == "") || !strings.Contains(got, test.denied) {
			t.Errorf("%s: %s: %q", test.rules, test.command, got)
		}
	}
	ping := commands.NewRight("PING")
	if v := u.Judge(table.Lookup([]byte("ping")), ping, ping, []byte("*-1\r\n")); !v.Gone {
		t.Error("a user that is not there")
	}
	v := u.Judge(table.Lookup([]byte("ping")), ping, ping,
		[]byte("-NOPERM this user has no permissions to run the 'acl' command\r\n"))
	if v.Lacks != "acl|getuser" {
		t.Errorf("lacks %q", v.Lacks)
	}
	older := fmt.Appendf(nil, "*2\r\n$8\r\ncommands\r\n$5\r\n+@all\r\n") // Redis 6.0 has no channels
	if v := u.Judge(table.Lookup([]byte("ping")), ping, commands.NewRight("SUBSCRIBE", "x"),
		older); v.Refusal != nil {
		t.Errorf("%q", v.Refusal)
	}
}
