package commands

import "testing"

// fakeLogins are the users of an upstream.
type fakeLogins struct {
	passwords map[string]string
	asked     []string // users
	loggedOut int
}

func (c fakeConnection) Login(user, password string, then func(refusal []byte) []byte) {
	f := c.f
	f.asked = append(f.asked, user)
	refusal := errWrongPass
	if want, ok := f.passwords[user]; ok && want == password {
		refusal = nil
	}
	if reply := then(refusal); reply != nil { // else it is asked once more
		f.Reply(reply)
	}
}

func (c fakeConnection) Logout() { c.f.loggedOut++ }

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
