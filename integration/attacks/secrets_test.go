package attacks

import (
	"fmt"
	"strings"
	"testing"

	"lockproxy/integration/rig"
)

// TestSecretsAreHidden sends passwords and tokens in every place where they may stand, rightly and wrongly
// written, and looks for them in what the proxy shows: MONITOR, SLOWLOG, errors, CLIENT LIST, the log and the
// metrics.
func TestSecretsAreHidden(t *testing.T) {
	t.Parallel()
	s := rig.StartRedis(t)
	s.Do(t, "CONFIG", "SET", "slowlog-max-len", "100000")
	p := rig.StartProxy(t, "--upstream", s.Addr, "--log-level", "debug")
	watch := rig.Connect(t, p.Addr)
	watch.Must(t, "MONITOR")
	c := rig.Connect(t, p.Addr)
	c.Must(t, "CONFIG", "SET", "slowlog-log-slower-than", "0")

	const secret = "SECRET-token"
	var shown strings.Builder
	for _, args := range [][]string{
		{"LOCK", "job", "TOKEN", secret, "PX", "60000"},
		{"LOCK", "job", "TOKEN", secret, "PX", "oops"},
		{"LOCK", "job", "TOKEN", secret, secret},
		{"LOCK", "job", secret},
		{"LOCK", "job", "TOKEN", secret, "TOKEN", secret},
		{"LOCK", "job", "TOKEN", secret + strings.Repeat("x", 2000)},
		{"LOCK", "job", "TOKEN", secret, "WAIT"},
		{"RENEW", "job", secret, "PX", "70000"},
		{"RENEW", "job", secret, "FENCE", "x", "more"},
		{"LOCKCTL", "CHECK", "job", secret},
		{"LOCKCTL", "CHECK", "job", secret, "more"},
		{"LOCKCTL", "INFO", "job"},
		{"UNLOCK", "job", secret, "FENCE", "x"},
		{"UNLOCK", "job", secret, "ID"},
		{"UNLOCK", "job", secret},
		{"RLOCK", "other", "TOKEN", secret},
		{"WLOCK", "other", "TOKEN", secret, "TRIES", "1", "EVERY", "1"},
		{"MLOCK", "2", "m1", "m2", "TOKEN", secret, "PX", "60000"},
		{"MLOCK", "2", "m1", "m2", "TOKEN", secret, "KEEPALIVE", "LINGER", "9"},
		{"MLOCK", "2", "m1", "job", "TOKEN", secret, "WAIT", "1"},
		{"MLOCK", "2", "m1", "m2", "TOKEN", secret, "REENTRANT"},
		{"MLOCK", "2", "m1", "TOKEN", secret},
		{"MLOCK", "9", "m1", "m2", "TOKEN", secret},
		{"MLOCK", "1", "m1", secret},
		{"MLOCK", "4", "m1", "m2", "TOKEN", secret, "REENTRANT"},
		{"MRENEW", "3", "m1", "m2", secret, "PX", "1"},
		{"MRENEW", "2", "m1", "m2", secret, "PX", "70000"},
		{"MRENEW", "2", "m1", "m2", secret, "PX", "oops"},
		{"MRENEW", "3", "m1", "m2", secret},
		{"MRENEW", "1", "m1", secret, secret},
		{"MUNLOCK", "x", "m1", "m2", secret},
		{"MUNLOCK", "2", "m1", "m2", secret, secret},
		{"MUNLOCK", "2", "m1", "m2", secret + strings.Repeat("x", 2000)},
		{"MUNLOCK", "2", "m1", "m2", secret},
		{"SEMLOCK", "sem", "PERMITS", "2", "TOKEN", secret},
		{"GUARD", "other", secret, "GET", "other"},
		{"GUARD", "other", "TOKEN", secret, "SUBSCRIBE", "x"},
		{"AUTH", secret}, {"AUTH", "user", secret}, {"AUTH", "user", secret, "more"},
		{"HELLO", "2", "AUTH", "user", secret}, {"HELLO", "2", "AUTH", secret},
		{"MIGRATE", "127.0.0.1", "1", "k", "0", "5", "AUTH", secret},
		{"CONFIG", "SET", "requirepass-x", secret},
		{"CONFIG", "SET", "masterauth", secret, "no-such", "x"},
		{"ACL", "SETUSER", "user", "on", ">" + secret},
	} {
		v := c.Call(t, args...)
		if args[0] == "LOCKCTL" || strings.HasSuffix(args[0], "UNLOCK") ||
			strings.HasPrefix(v.String(), "(error)") {
			fmt.Fprintln(&shown, v)
		}
	}
	c.Must(t, "ECHO", "the-end")
	fmt.Fprintln(&shown, c.Must(t, "SLOWLOG", "GET", "-1"), c.Must(t, "CLIENT", "LIST"))
	for !strings.Contains(shown.String(), `"ECHO" "the-end"`) {
		v, err := watch.Receive(rig.Patience)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintln(&shown, v)
	}
	_, metrics, err := p.Get("/metrics")
	if err != nil {
		t.Fatal(err)
	}
	text := shown.String() + metrics + p.Log.String()
	if i := strings.Index(text, secret); i >= 0 {
		t.Errorf("a secret is shown: ...%s...", text[max(0, i-300):min(len(text), i+100)])
	}
	for _, want := range []string{
		`"LOCK" "job" "TOKEN" "(redacted)"`, `"MLOCK" "2" "m1" "m2" "TOKEN" "(redacted)"`,
		`"MUNLOCK" "2" "m1" "m2" "(redacted)"`, "EVALSHA", "(redacted)",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%s is not shown: the test sees nothing", want)
		}
	}
}
