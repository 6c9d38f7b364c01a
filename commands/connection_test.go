package commands

import (
	"strings"
	"testing"
)

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

// TestLogins proves who may become a user of the upstream, and when the rest of HELLO acts.
func TestLogins(t *testing.T) {
	f := newFake(t)
	f.passwords = map[string]string{"bob": "123", "eve": ""}
	const wrong = "-WRONGPASS invalid username-password pair or user is disabled.\r\n"
	for _, step := range []struct{ line, want, user, name string }{
		{"AUTH bob 124", wrong, "default", ""},
		{"AUTH bob 123", "+OK\r\n", "bob", ""},
		{"AUTH nobody 123", wrong, "bob", ""},
		{"HELLO 2 SETNAME a AUTH nobody x SETNAME b", wrong, "bob", "a"},
		{"AUTH default x", "+OK\r\n", "default", "a"},
		{"HELLO 2 AUTH bob 123 SETNAME c FOO", "-ERR Syntax error in HELLO option 'FOO'\r\n", "bob", "c"},
	} {
		if got := f.do(step.line); got != step.want || f.client.userName() != step.user || f.client.Name != step.name {
			t.Errorf("%s: %q, user %s, name %s", step.line, got, f.client.userName(), f.client.Name)
		}
	}
	if got := f.do("HELLO 3 AUTH bob 123 SETNAME d"); got[:2] != "%7" || f.client.Proto != 3 || f.client.Name != "d" {
		t.Errorf("HELLO: %q %+v", got, &f.client)
	}
	// The proxy's own password comes first.
	f.server.password, f.client.Authenticated = "secret", false
	f.asked = nil
	if got := f.do("AUTH bob 123"); got != wrong || f.client.Authenticated || f.asked != nil {
		t.Errorf("without the password: %q", got)
	}
	if got := f.do("AUTH secret"); got != "+OK\r\n" || f.client.userName() != "default" || f.loggedOut != 2 {
		t.Errorf("with the password: %q, user %s", got, f.client.userName())
	}
	if got := f.do("AUTH bob 123"); got != "+OK\r\n" || f.client.userName() != "bob" {
		t.Errorf("behind the password: %q, user %s", got, f.client.userName())
	}
}
