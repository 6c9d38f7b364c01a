package commands_test

import (
	"strings"
	"testing"

	"lockproxy/commands"
	"lockproxy/internal/resp"
)

// A denial reaches the client as the server says it of the command itself. The texts of DRYRUN and of errors
// were taken from Redis 7.0.15 and 7.2.
func TestWordsOfDenials(t *testing.T) {
	table := redis7(t, sampleVerbs()...)
	for _, test := range []struct{ command, said, want string }{
		{"MONITOR", "This user has no permissions to run the 'monitor' command",
			"-NOPERM this user has no permissions to run the 'monitor' command"},
		{"MONITOR", "User alice has no permissions to run the 'monitor' command",
			"-NOPERM User alice has no permissions to run the 'monitor' command"},
		{"MSET a b", "This user has no permissions to access the 'a key' key",
			"-NOPERM this user has no permissions to access one of the keys used as arguments"},
		{"MSET a b", "User alice has no permissions to access the 'a' key",
			"-NOPERM No permissions to access a key"},
		{"SUBSCRIBE x", "This user has no permissions to access the 'x' channel",
			"-NOPERM this user has no permissions to access one of the channels used as arguments"},
		{"SUBSCRIBE x", "User alice has no permissions to access the 'x' channel",
			"-NOPERM No permissions to access a channel"},
		{"EXEC", "This user has no permissions to run the 'exec' command",
			"-EXECABORT Transaction discarded because of: NOPERM this user has no permissions to run the " +
				"'exec' command"},
		{"LOCK x", "This user has no permissions to access the 'lock:{x}' key",
			"-NOPERM this user has no permissions to access one of the keys used as arguments (LOCK asks " +
				"for it)"},
	} {
		c, args := resolved(table, test.command)
		u := commands.NewRightsOf("alice", &fakeServer{Version: "7.0.15"}, table)
		got := string(u.Judge(c, args, args, resp.AppendBulks([]byte("$"), test.said)[1:]).Refusal)
		if got != test.want+"\r\n" {
			t.Errorf("%s: %q\n got %q\nwant %q", test.command, test.said, got, test.want)
		}
	}
}

// What the upstream does not know is unknown, though the proxy could answer it.
func TestCommandThatTheUpstreamHasNot(t *testing.T) {
	table := redis7(t)
	u := commands.NewRightsOf("alice", &fakeServer{Version: "7.0.15"}, table)
	for command, want := range map[string]string{
		"CLIENT NO-TOUCH ON": "-ERR unknown subcommand 'NO-TOUCH'. Try CLIENT HELP.\r\n",
		"CLIENT NONSENSE":    "-ERR unknown subcommand 'NONSENSE'. Try CLIENT HELP.\r\n",
		"READONLY":           "-ERR unknown command 'READONLY', with args beginning with: \r\n",
	} {
		c, args := resolved(table, command)
		if got := string(u.Judge(c, args, args,
			[]byte("-ERR Command 'x' not found\r\n")).Refusal); got != want {
			t.Errorf("%s: %q, want %q", command, got, want)
		}
	}
}

// The upstream is told keys, channels and what rules may name, and nothing else.
func TestRightsShowNoSecrets(t *testing.T) {
	table := redis7(t)
	for command, want := range map[string]string{
		"PING":                             "PING",
		"ECHO x":                           "ECHO x",
		"SELECT 1":                         "SELECT 1",
		"CONFIG SET requirepass secret":    "CONFIG SET * *",
		"SCRIPT LOAD secret":               "SCRIPT LOAD *",
		"COMMAND GETKEYS GET a b c d e f":  "COMMAND GETKEYS * * * * *",
		"CLIENT SETINFO lib-name secret":   "CLIENT SETINFO * *",
		"MSET a secret b secret":           "MSET a * b *",
		"SUBSCRIBE a b":                    "SUBSCRIBE a b",
		"DEL a b":                          "DEL a b",
		"COMMAND DOCS a b c d e f g h i j": "COMMAND DOCS * * * *",
	} {
		c, args := resolved(table, command)
		var got []string
		rights, _ := c.Rights(args)
		for _, word := range rights[0] {
			got = append(got, string(word))
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %s, want %s", command, got, want)
		}
	}
}

func resolved(table *commands.Table, command string) (*commands.Command, [][]byte) {
	var args [][]byte
	for _, word := range strings.Fields(command) {
		args = append(args, []byte(word))
	}
	c, _ := table.Resolve(args)
	return c, args
}
