package commands

import (
	"strings"
	"testing"
)

// What the proxy answers itself, it answers as Redis does, in every byte.
func TestAnswersAsRedis(t *testing.T) {
	ask := realRedis(t)
	f := newFake(t)
	for _, line := range []string{
		"PING", "PING hi", "PING a b", "ECHO hi", "ECHO", "ECHO a b", `ECHO ""`,
		"HELLO 4", "HELLO 1", "HELLO x", "HELLO 3 foo", "HELLO 2 AUTH a", "HELLO 3 SETNAME", "HELLO 2 AUTH a b", "HELLO 2 SETNAME \x01", "HELLO 99999999999999999999",
		"AUTH", "AUTH a", "AUTH a b", "AUTH default x", "AUTH a b c",
		"CLIENT", "CLIENT FOO", "CLIENT SETNAME", "CLIENT GETNAME", "CLIENT SETNAME \x01", "CLIENT SETNAME me", "CLIENT GETNAME", `CLIENT SETNAME ""`, "CLIENT GETNAME",
		"CLIENT ID x", "CLIENT NO-EVICT ON", "CLIENT NO-EVICT off", "CLIENT NO-EVICT maybe", "CLIENT NO-EVICT", "CLIENT GETREDIR",
		"CLIENT HELP", "CLIENT HELP x", "CLIENT LIST FOO", "CLIENT LIST TYPE", "CLIENT LIST TYPE x", "CLIENT LIST TYPE replica", "CLIENT LIST ID", "CLIENT LIST ID x", "CLIENT LIST ID 99999", "CLIENT LIST ID +1",
		"CLIENT KILL", "CLIENT KILL nobody", "CLIENT KILL ID x", "CLIENT KILL ID 0", "CLIENT KILL ID 01", "CLIENT KILL ID 9999", "CLIENT KILL ID 9999 SKIPME", "CLIENT KILL TYPE x", "CLIENT KILL TYPE slave", "CLIENT KILL USER nobody",
		"CLIENT KILL SKIPME maybe", "CLIENT KILL SKIPME yes", "CLIENT KILL ADDR a LADDR b", "CLIENT KILL FOO bar", "CLIENT KILL addr x foo bar",
		"CLIENT PAUSE", "CLIENT PAUSE x", "CLIENT PAUSE -1", "CLIENT PAUSE 1.5", "CLIENT PAUSE 99999999999999999999", "CLIENT PAUSE 9223372036854775807", "CLIENT PAUSE 1 x", "CLIENT PAUSE 0 WRITE", "CLIENT PAUSE 0 write x", "CLIENT UNPAUSE", "CLIENT UNPAUSE x",
		"CLIENT REPLY", "CLIENT REPLY x", "CLIENT REPLY on", "CLIENT REPLY on off", "MONITOR x", "HELLO +2", "HELLO 2 SETNAME y FOO", "CLIENT GETNAME", "HELLO 2 AUTH default x FOO",
		"SELECT", "SELECT 0", "SELECT x", "SELECT -1", "SELECT 0 0", "SELECT 9", "SELECT 15", "SELECT 16", "SELECT +1", "SELECT 01", "SELECT -0", "SELECT 2147483648", "SELECT -99999999999", "SELECT 9223372036854775808", "RESET", "RESET x",
		"COMMAND FOO", "COMMAND COUNT", "COMMAND COUNT x", "COMMAND GETKEYS", "COMMAND GETKEYS get", "COMMAND LIST x", "COMMAND LIST FILTERBY", "COMMAND HELP x",
		"CONFIG", "CONFIG FOO", "CONFIG GET", "CONFIG GET nosuch", "CONFIG SET a", "CONFIG SET a b", "CONFIG SET a b c", "CONFIG RESETSTAT",
		"CLUSTER INFO", "CLUSTER NODES", "CLUSTER", "ROLE", "ROLE x", "ACL WHOAMI",
		"SCAN", "SCAN x", "EVAL x", "SCRIPT LOAD", "MSET a", "MSET a 1 b", "RANDOMKEY x", "READONLY x", "XREAD a",
		"INFO nosuch", "QUIT",
	} {
		want := string(ask(strings.Fields(strings.ReplaceAll(line, `""`, "\x00"))...))
		if strings.Contains(line, `""`) {
			want = string(ask(append(strings.Fields(strings.TrimSuffix(line, `""`)), "")...))
		}
		f.masters[0] = node(want) // for what is forwarded
		if got := f.do(line); got != want {
			t.Errorf("%q:\n got %q\nwant %q", line, got, want)
		}
	}
	if !f.closed {
		t.Error("QUIT does not close")
	}
}

func TestHello(t *testing.T) {
	f := newFake(t)
	f.server.password = "secret"
	f.client.Authenticated = false
	const refusal = "-NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO AUTH <user> <pass> option can be used to authenticate the client and select the RESP protocol version at the same time\r\n"
	const wrong = "-WRONGPASS invalid username-password pair or user is disabled.\r\n"
	for _, test := range [][2]string{
		{"HELLO", refusal},
		{"HELLO 3", refusal},
		{"HELLO 3 AUTH default x", wrong},
		{"AUTH x", wrong},
		{"AUTH other secret", wrong},
	} {
		if got := f.do(test[0]); got != test[1] || f.client.Authenticated || f.client.Proto != 2 {
			t.Errorf("%s: %q, %+v", test[0], got, f.client)
		}
	}
	got := f.do("HELLO 3 AUTH default secret SETNAME me")
	want := "%7\r\n$6\r\nserver\r\n$5\r\nredis\r\n$7\r\nversion\r\n$6\r\n7.0.15\r\n$5\r\nproto\r\n:3\r\n$2\r\nid\r\n:7\r\n$4\r\nmode\r\n$10\r\nstandalone\r\n$4\r\nrole\r\n$6\r\nmaster\r\n$7\r\nmodules\r\n*0\r\n"
	if got != want || !f.client.Authenticated || f.client.Name != "me" || f.client.Proto != 3 {
		t.Errorf("%q, %+v", got, f.client)
	}
	if got := f.do("HELLO 2"); !strings.HasPrefix(got, "*14\r\n$6\r\nserver\r\n") || f.client.Proto != 2 {
		t.Errorf("%q", got)
	}
	if got := f.do("RESET"); got != "+RESET\r\n" || f.client.Authenticated || f.client.Name != "" || f.client.ID != 7 {
		t.Errorf("%q, %+v", got, f.client)
	}
	if got := f.do("AUTH secret"); got != "+OK\r\n" || !f.client.Authenticated {
		t.Errorf("%q, %+v", got, f.client)
	}
}

// A server that does not tell its version still gets clients through their
// handshake.
func TestUnknownVersion(t *testing.T) {
	f := newFake(t)
	f.server.version = ""
	if got := f.do("HELLO 3"); !strings.Contains(got, "\r\n$7\r\nversion\r\n$5\r\n6.0.0\r\n") {
		t.Errorf("%q", got)
	}
	if got := f.do("INFO server"); !strings.Contains(got, "redis_version:6.0.0\r\n") {
		t.Errorf("%q", got)
	}
}

func TestClientInfo(t *testing.T) {
	f := newFake(t)
	for _, line := range []string{"CLIENT SETINFO LIB-NAME redis-py", "CLIENT SETINFO lib-ver 5.0", "CLIENT SETNAME me", "CLIENT NO-TOUCH ON"} {
		if got := f.do(line); got != "+OK\r\n" {
			t.Errorf("%s: %q", line, got)
		}
	}
	for line, want := range map[string]string{
		"CLIENT SETINFO LIB-NAME \x01": "-ERR lib-name cannot contain spaces, newlines or special characters.\r\n",
		"CLIENT SETINFO FOO x":         "-ERR Unrecognized option 'FOO'\r\n",
		"CLIENT NO-TOUCH x":            "-ERR syntax error\r\n",
	} {
		if got := f.do(line); got != want {
			t.Errorf("%s: %q", line, got)
		}
	}
	got := f.do("CLIENT INFO")
	for _, part := range []string{"id=7 addr=127.0.0.1:1234 laddr=127.0.0.1:6380 ", " name=me age=0 ", " user=default ", " resp=2 lib-name=redis-py lib-ver=5.0\n\r\n"} {
		if !strings.Contains(got, part) {
			t.Errorf("%q has no %q", got, part)
		}
	}
	if strings.Count(got, "\n") != 3 {
		t.Errorf("not one line: %q", got)
	}
}

// Bytes of a client never become lines of a reply.
func TestErrorsAreOneLine(t *testing.T) {
	f := newFake(t)
	for _, args := range [][]string{{"CLIENT", "a\r\n+OK\r\n"}, {"HELLO", "3", "a\r\n+OK"}, {"CLIENT", "SETINFO", "\r\n", "x"}} {
		if got := f.args(args...); strings.Count(got, "\r") != 1 || strings.Count(got, "\n") != 1 || got[0] != '-' {
			t.Errorf("%q: %q", args, got)
		}
	}
}

func TestConfig(t *testing.T) {
	f := newFake(t)
	f.server.settings["maxclients"] = "10000"
	for _, test := range [][2]string{
		{"CONFIG GET lock-lease", "*2\r\n$10\r\nlock-lease\r\n$3\r\n30s\r\n"},
		{"CONFIG SET lock-lease 10s", "+OK\r\n"},
		{"CONFIG GET lock-lease", "*2\r\n$10\r\nlock-lease\r\n$3\r\n10s\r\n"},
	} {
		if got := f.do(test[0]); got != test[1] || len(f.sent) > 0 {
			t.Errorf("%s: %q, sent %q", test[0], got, f.sent)
		}
	}
	f.client.Proto = 3
	if got := f.do("CONFIG GET lock-lease"); got != "%1\r\n$10\r\nlock-lease\r\n$3\r\n10s\r\n" {
		t.Errorf("%q", got)
	}
}
