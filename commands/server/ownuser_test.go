package server

import (
	"strings"
	"testing"
)

// Which rules of ACL SETUSER keep a user out who has the password "own", or none.
func TestShutsOut(t *testing.T) {
	const digest = "5060f4edc3d3c9b5e8b3e6fd1c3b6d1f0c7f6b8d0f6b3a0e4c7a1c8d5e2f9b30" // of another one
	for _, test := range []struct {
		password, rules string
		want            bool
	}{
		{"own", "", false},
		{"own", ">new", false},
		{"own", ">new <own", true},
		{"own", "<own", true},
		{"own", "<own >own", false},
		{"own", "<other", false},
		{"own", "resetpass", true},
		{"own", "RESETPASS >own", false},
		{"own", "resetpass >new", true},
		{"own", "resetpass #" + digest, true},
		{"own", "reset on nopass +@all ~* &*", false},
		{"own", "reset on >own", false},
		{"own", "reset >own", true},
		{"own", "off", true},
		{"own", "off on", false},
		{"own", "-@all +get ~x", false},
		{"", ">new", true},
		{"", "#" + digest, true},
		{"", "nopass", false},
		{"", ">new nopass", false},
		{"", "on +@all", false},
		{"", "resetpass", true},
	} {
		var rules [][]byte
		for _, rule := range strings.Fields(test.rules) {
			rules = append(rules, []byte(rule))
		}
		if got := shutsOut(test.password, rules); got != test.want {
			t.Errorf("%q: %s: %v", test.password, test.rules, got)
		}
	}
}
