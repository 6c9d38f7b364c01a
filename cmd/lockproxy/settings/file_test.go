package settings

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func writeConfig(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "proxy.conf")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestFile(t *testing.T) {
	path := writeConfig(t, "\ufeff# a comment\n\n  LOCK-LEASE 45s\r\nrequirepass \"pass "+
		"\\\"word\\x21\\n\"\n\tlock-prefix 'it\\'s:'\nadmin \"\"\ndev yes")
	v, err := load([]string{"--config", path}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if v.Proxy.Locks.Lease != 45*time.Second || v.Proxy.Password != "pass \"word!\n" ||
		v.Proxy.Locks.Prefix != "it's:" || v.Admin.Addr != "" || !v.Dev {
		t.Errorf("%+v", v)
	}
}

func TestFileErrors(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"\nlock-lease 30", `2: lock-lease 30: lock-lease needs a unit: 30s or 30ms; allowed: 1ms to 8760h`},
		{"lock-leas 30s", `1: lock-leas: there is no such setting; did you mean lock-lease?`},
		{"port 6380", `1: port: there is no such setting; lockproxy --help lists them`},
		{"dev", `1: dev: needs a value; allowed: yes or no`},
		{"dev yes # no upstream",
			`1: dev: takes one value, and 4 words follow: quote a value with spaces, put a comment on a ` +
				`line of its own`},
		{"requirepass=hunter2", `1: requirepass: a space parts it from its value`},
		{"requirepass: hunter2", `1: requirepass: a space parts it from its value`},
		{"requirepas=hunter2", `1: requirepas: there is no such setting; did you mean requirepass?`},
		{`requirepass=hunter2"open`,
			`1: requirepass: its quotes are not balanced, or something follows a closing quote without a ` +
				`space`},
		{`requirepass "open`,
			`1: requirepass: its quotes are not balanced, or something follows a closing quote without a ` +
				`space`},
		{`requirepass "a"b`,
			`1: requirepass: its quotes are not balanced, or something follows a closing quote without a ` +
				`space`},
		{"requirepass\t\"secret",
			`1: requirepass: its quotes are not balanced, or something follows a closing quote without a ` +
				`space`},
		{"config other.conf", `1: config: a config file cannot name another one`},
		{"loops 1\n\nloops 2", `3: loops: stands in line 1 already`},
		{"maxclients 0\nloops 100000", "1: maxclients 0: maxclients must be between 1 and 1000000 " +
			"inclusive; allowed: 1 to 1000000\n" +
			`2: loops 100000: loops must be between 0 and 256 inclusive; allowed: 0 to 256`},
		{"lock-leas 30s\nloops x\n\nlock-leas 3s\ndev", // what the line lacks and what the value is, by lines
			"1: lock-leas: there is no such setting; did you mean lock-lease?\n" +
				"2: loops x: loops couldn't be parsed into an integer; allowed: 0 to 256\n" +
				"4: lock-leas: there is no such setting; did you mean lock-lease?\n" +
				"5: dev: needs a value; allowed: yes or no"},
	} {
		path := writeConfig(t, c.text)
		_, err := load([]string{"--config", path}, nil)
		if err == nil {
			t.Errorf("%q: no error", c.text)
		} else if got := strings.ReplaceAll(err.Error(), path+":", ""); got != c.want {
			t.Errorf("%q\n got: %s\nwant: %s", c.text, got, c.want)
		}
	}
	_, err := load([]string{"--config", "/nowhere/proxy.conf"}, nil)
	if want := "--config /nowhere/proxy.conf: no such file or directory"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

// A flag wins over the environment, that over the file, that over the default.
func TestPrecedence(t *testing.T) {
	path := writeConfig(t, "lock-lease 1s\nlock-max-wait 1s\nloops 1\n")
	v, err := load([]string{"--lock-lease", "3s"},
		[]string{"LOCKPROXY_CONFIG=" + path, "LOCKPROXY_LOCK_LEASE=2s", "LOCKPROXY_LOCK_MAX_WAIT=2s"})
	if err != nil {
		t.Fatal(err)
	}
	if v.Proxy.Locks.Lease != 3*time.Second || v.Proxy.Locks.MaxWait != 2*time.Second || v.Proxy.Loops != 1 ||
		v.Proxy.MaxClients != 10000 {
		t.Errorf("%+v", v)
	}
}
