//go:build !quick

package commands_test

import (
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"

	"lockproxy/commands"
	"lockproxy/commands/routes"
	"lockproxy/internal/resp"
)

// The fields are Redis's, in its order.
func TestClientInfoHasTheFieldsOfRedis(t *testing.T) {
	ask := realRedis(t)
	values := regexp.MustCompile(`=\S*`)
	f := newSession(t)
	want := values.ReplaceAllString(string(ask("CLIENT", "INFO")), "=")
	got := values.ReplaceAllString(f.Do("CLIENT INFO"), "=")
	if _, want, _ = strings.Cut(want, "\r\n"); !strings.HasSuffix(got, want) {
		t.Errorf("\n got %q\nwant %q", got, want)
	}
}

// What the proxy answers itself, it answers as Redis does, in every byte.
func TestAnswersAsRedis(t *testing.T) {
	ask := realRedis(t)
	f := newSession(t)
	for _, line := range []string{
		"PING", "PING hi", "PING a b", "ECHO hi", "ECHO", "ECHO a b", `ECHO ""`,
		"HELLO 4", "HELLO 1", "HELLO x", "HELLO 3 foo", "HELLO 2 AUTH a", "HELLO 3 SETNAME",
		"HELLO 2 AUTH a b", "HELLO 2 SETNAME \x01", "HELLO 99999999999999999999",
		"AUTH", "AUTH a", "AUTH a b", "AUTH default x", "AUTH a b c",
		"CLIENT", "CLIENT FOO", "CLIENT SETNAME", "CLIENT GETNAME", "CLIENT SETNAME \x01",
		"CLIENT SETNAME me", "CLIENT GETNAME", `CLIENT SETNAME ""`, "CLIENT GETNAME",
		"CLIENT ID x", "CLIENT NO-EVICT ON", "CLIENT NO-EVICT off", "CLIENT NO-EVICT maybe",
		"CLIENT NO-EVICT", "CLIENT GETREDIR",
		"CLIENT HELP", "CLIENT HELP x", "CLIENT LIST FOO", "CLIENT LIST TYPE", "CLIENT LIST TYPE x",
		"CLIENT LIST TYPE replica", "CLIENT LIST ID", "CLIENT LIST ID x", "CLIENT LIST ID 99999",
		"CLIENT LIST ID +1",
		"CLIENT KILL", "CLIENT KILL nobody", "CLIENT KILL ID x", "CLIENT KILL ID 0", "CLIENT KILL ID 01",
		"CLIENT KILL ID 9999", "CLIENT KILL ID 9999 SKIPME", "CLIENT KILL TYPE x", "CLIENT KILL TYPE slave",
		"CLIENT KILL USER nobody",
		"CLIENT KILL SKIPME maybe", "CLIENT KILL SKIPME yes", "CLIENT KILL ADDR a LADDR b",
		"CLIENT KILL FOO bar", "CLIENT KILL addr x foo bar",
		"CLIENT PAUSE", "CLIENT PAUSE x", "CLIENT PAUSE -1", "CLIENT PAUSE 1.5",
		"CLIENT PAUSE 99999999999999999999", "CLIENT PAUSE 9223372036854775807", "CLIENT PAUSE 1 x",
		"CLIENT PAUSE 0 WRITE", "CLIENT PAUSE 0 write x", "CLIENT UNPAUSE", "CLIENT UNPAUSE x",
		"CLIENT REPLY", "CLIENT REPLY x", "CLIENT REPLY on", "CLIENT REPLY on off", "MONITOR x", "HELLO +2",
		"HELLO 2 SETNAME y FOO", "CLIENT GETNAME", "HELLO 2 AUTH default x FOO",
		"SELECT", "SELECT 0", "SELECT x", "SELECT -1", "SELECT 0 0", "SELECT 9", "SELECT 15", "SELECT 16",
		"SELECT +1", "SELECT 01", "SELECT -0", "SELECT 2147483648", "SELECT -99999999999",
		"SELECT 9223372036854775808", "RESET", "RESET x",
		"COMMAND FOO", "COMMAND COUNT", "COMMAND COUNT x", "COMMAND GETKEYS", "COMMAND GETKEYS get",
		"COMMAND LIST x", "COMMAND LIST FILTERBY", "COMMAND HELP x",
		"CONFIG", "CONFIG FOO", "CONFIG GET", "CONFIG GET nosuch", "CONFIG SET a", "CONFIG SET a b",
		"CONFIG SET a b c", "CONFIG RESETSTAT",
		"CLUSTER INFO", "CLUSTER NODES", "CLUSTER", "ROLE", "ROLE x", "ACL WHOAMI",
		"SCAN", "SCAN x", "EVAL x", "SCRIPT LOAD", "MSET a", "MSET a 1 b", "RANDOMKEY x", "READONLY x",
		"XREAD a",
		"INFO nosuch", "QUIT",
	} {
		want := string(ask(strings.Fields(strings.ReplaceAll(line, `""`, "\x00"))...))
		if strings.Contains(line, `""`) {
			want = string(ask(append(strings.Fields(strings.TrimSuffix(line, `""`)), "")...))
		}
		f.Masters[0] = saying(want) // for what is forwarded
		if got := f.Do(line); got != want {
			t.Errorf("%q:\n got %q\nwant %q", line, got, want)
		}
	}
	if !f.Closed {
		t.Error("QUIT does not close")
	}
}

func TestKeysAsRedisFindsThem(t *testing.T) {
	ask := realRedis(t)
	table, err := routes.NewTable(ask("COMMAND"), nil)
	if err != nil {
		t.Fatal(err)
	}
	check := func(line string) {
		t.Helper()
		args := wordsOf(line)
		want := []string{}
		v, _, err := resp.Parse(ask(append([]string{"COMMAND", "GETKEYS"}, strings.Fields(line)...)...))
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(v.Err(), "ERR Invalid arguments") {
			return // any node will say so
		}
		for _, key := range v.Elems {
			want = append(want, key.Text())
		}
		slices.Sort(want)
		if got := keysOf(table, args); !slices.Equal(got, want) {
			t.Errorf("%s: keys %q, Redis: %q %s", line, got, want, v.Err())
		}
	}
	for _, line := range calls {
		check(line)
	}
	n := 0
	for _, c := range table.Commands() {
		if _, err := c.Slot([][]byte{[]byte(c.Name)}); errors.Is(err, commands.ErrAskKeys) ||
			c.Flags&commands.PubSub != 0 {
			continue // channels are hashed as keys are, but Redis does not call them keys
		}
		for extra := range 3 {
			if line := sampleOf(c, extra); line != "" {
				check(line)
				n++
			}
		}
	}
	if n < 500 {
		t.Errorf("only %d sample calls", n)
	}
}
