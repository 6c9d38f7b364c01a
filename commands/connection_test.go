package commands_test

import (
	"strings"
	"testing"
)

func TestHello(t *testing.T) {
	f := newSession(t)
	f.Server.Password = "secret"
	f.User.Authenticated = false
	const refusal = "-NOAUTH HELLO must be called with the client already authenticated, otherwise the " +
		"HELLO AUTH <user> <pass> option can be used to authenticate the client and select the RESP " +
		"protocol version at the same time\r\n"
	const wrong = "-WRONGPASS invalid username-password pair or user is disabled.\r\n"
	for _, test := range [][2]string{
		{"HELLO", refusal},
		{"HELLO 3", refusal},
		{"HELLO 3 AUTH default x", wrong},
		{"AUTH x", wrong},
		{"AUTH other secret", wrong},
	} {
		if got := f.Do(test[0]); got != test[1] || f.User.Authenticated || f.User.Proto != 2 {
			t.Errorf("%s: %q, %+v", test[0], got, f.User)
		}
	}
	got := f.Do("HELLO 3 AUTH default secret SETNAME me")
	want := "%7\r\n$6\r\nserver\r\n$5\r\nredis\r\n$7\r\nversion\r\n$6\r\n7.0.15\r\n$5\r\nproto\r\n:3\r\n" +
		"$2\r\nid\r\n:7\r\n$4\r\nmode\r\n$10\r\nstandalone\r\n$4\r\nrole\r\n$6\r\nmaster\r\n$7\r\n" +
		"modules\r\n*0\r\n"
	if got != want || !f.User.Authenticated || f.User.Name != "me" || f.User.Proto != 3 {
		t.Errorf("%q, %+v", got, f.User)
	}
	if got := f.Do("HELLO 2"); !strings.HasPrefix(got, "*14\r\n$6\r\nserver\r\n") || f.User.Proto != 2 {
		t.Errorf("%q", got)
	}
	if got := f.Do("RESET"); got != "+RESET\r\n" || f.User.Authenticated || f.User.Name != "" ||
		f.User.ID != 7 {
		t.Errorf("%q, %+v", got, f.User)
	}
	if got := f.Do("AUTH secret"); got != "+OK\r\n" || !f.User.Authenticated {
		t.Errorf("%q, %+v", got, f.User)
	}
}

// Clients learn which product is behind, and its own version.
func TestHelloOfAProduct(t *testing.T) {
	f := newSession(t)
	f.Server.Product, f.Server.Version, f.Server.Release = "valkey", "7.2.4", "9.1.2"
	if got := f.Do("HELLO 2"); !strings.HasPrefix(got,
		"*14\r\n$6\r\nserver\r\n$6\r\nvalkey\r\n$7\r\nversion\r\n$5\r\n9.1.2\r\n") {
		t.Errorf("%q", got)
	}
}

// A server that does not tell its version still gets clients through their
// handshake.
func TestUnknownVersion(t *testing.T) {
	f := newSession(t)
	f.Server.Version = ""
	if got := f.Do("HELLO 3"); !strings.Contains(got, "\r\n$7\r\nversion\r\n$5\r\n6.0.0\r\n") {
		t.Errorf("%q", got)
	}
	if got := f.Do("INFO server"); !strings.Contains(got, "redis_version:6.0.0\r\n") {
		t.Errorf("%q", got)
	}
}

func TestClientInfo(t *testing.T) {
	f := newSession(t)
	for _, line := range []string{"CLIENT SETINFO LIB-NAME redis-py", "CLIENT SETINFO lib-ver 5.0",
		"CLIENT SETNAME me", "CLIENT NO-TOUCH ON"} {
		if got := f.Do(line); got != "+OK\r\n" {
			t.Errorf("%s: %q", line, got)
		}
	}
	for line, want := range map[string]string{
		"CLIENT SETINFO LIB-NAME \x01": "-ERR lib-name cannot contain spaces, newlines or special " +
			"characters.\r\n",
		"CLIENT SETINFO FOO x": "-ERR Unrecognized option 'FOO'\r\n",
		"CLIENT NO-TOUCH x":    "-ERR syntax error\r\n",
	} {
		if got := f.Do(line); got != want {
			t.Errorf("%s: %q", line, got)
		}
	}
	got := f.Do("CLIENT INFO")
	for _, part := range []string{"id=7 addr=127.0.0.1:1234 laddr=127.0.0.1:6380 ", " name=me age=",
		" user=default ", " resp=2 lib-name=redis-py lib-ver=5.0\n\r\n"} {
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
	f := newSession(t)
	for _, args := range [][]string{{"CLIENT", "a\r\n+OK\r\n"}, {"HELLO", "3", "a\r\n+OK"},
		{"CLIENT", "SETINFO", "\r\n", "x"}} {
		if got := f.Args(args...); strings.Count(got, "\r") != 1 || strings.Count(got, "\n") != 1 ||
			got[0] != '-' {
			t.Errorf("%q: %q", args, got)
		}
	}
}

func TestConfig(t *testing.T) {
	f := newSession(t)
	f.Server.Settings["maxclients"] = "10000"
	for _, test := range [][2]string{
		{"CONFIG GET lock-lease", "*2\r\n$10\r\nlock-lease\r\n$3\r\n30s\r\n"},
		{"CONFIG SET lock-lease 10s", "+OK\r\n"},
		{"CONFIG GET lock-lease", "*2\r\n$10\r\nlock-lease\r\n$3\r\n10s\r\n"},
	} {
		if got := f.Do(test[0]); got != test[1] || len(f.Sent) > 0 {
			t.Errorf("%s: %q, sent %q", test[0], got, f.Sent)
		}
	}
	f.User.Proto = 3
	if got := f.Do("CONFIG GET lock-lease"); got != "%1\r\n$10\r\nlock-lease\r\n$3\r\n10s\r\n" {
		t.Errorf("%q", got)
	}
}

// TestLogins proves who may become a user of the upstream, and when the rest of HELLO acts.
func TestLogins(t *testing.T) {
	f := newSession(t)
	f.Passwords = map[string]string{"bob": "123", "eve": ""}
	const wrong = "-WRONGPASS invalid username-password pair or user is disabled.\r\n"
	for _, step := range []struct{ line, want, user, name string }{
		{"AUTH bob 124", wrong, "default", ""},
		{"AUTH bob 123", "+OK\r\n", "bob", ""},
		{"AUTH nobody 123", wrong, "bob", ""},
		{"HELLO 2 SETNAME a AUTH nobody x SETNAME b", wrong, "bob", "a"},
		{"AUTH default x", "+OK\r\n", "default", "a"},
		{"HELLO 2 AUTH bob 123 SETNAME c FOO", "-ERR Syntax error in HELLO option 'FOO'\r\n", "bob", "c"},
	} {
		if got := f.Do(step.line); got != step.want || f.User.UserName() != step.user ||
			f.User.Name != step.name {
			t.Errorf("%s: %q, user %s, name %s", step.line, got, f.User.UserName(), f.User.Name)
		}
	}
	if got := f.Do("HELLO 3 AUTH bob 123 SETNAME d"); got[:2] != "%7" || f.User.Proto != 3 ||
		f.User.Name != "d" {
		t.Errorf("HELLO: %q %+v", got, &f.User)
	}
	// The proxy's own password comes first.
	f.Server.Password, f.User.Authenticated = "secret", false
	f.Asked = nil
	if got := f.Do("AUTH bob 123"); got != wrong || f.User.Authenticated || f.Asked != nil {
		t.Errorf("without the password: %q", got)
	}
	if got := f.Do("AUTH secret"); got != "+OK\r\n" || f.User.UserName() != "default" || f.LoggedOut != 2 {
		t.Errorf("with the password: %q, user %s", got, f.User.UserName())
	}
	if got := f.Do("AUTH bob 123"); got != "+OK\r\n" || f.User.UserName() != "bob" {
		t.Errorf("behind the password: %q, user %s", got, f.User.UserName())
	}
}
