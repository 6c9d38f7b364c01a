package settings

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"
)

func TestFlags(t *testing.T) {
	for _, test := range []struct {
		args string
		want func(v *Values) bool
	}{
		{"--lock-lease 45s", func(v *Values) bool { return v.Proxy.Locks.Lease == 45*time.Second }},
		{"--lock-lease=500ms", func(v *Values) bool { return v.Proxy.Locks.Lease == 500*time.Millisecond }},
		{"--lock-lease 1s --lock-lease 2s",
			func(v *Values) bool { return v.Proxy.Locks.Lease == 2*time.Second }},
		{"--dev", func(v *Values) bool { return v.Dev }},
		{"--dev yes", func(v *Values) bool { return v.Dev }},
		{"--dev YES --loops 3", func(v *Values) bool { return v.Dev && v.Proxy.Loops == 3 }},
		{"--dev=no", func(v *Values) bool { return !v.Dev }},
		{"--dev --loops 2", func(v *Values) bool { return v.Dev && v.Proxy.Loops == 2 }},
		{"--requirepass=--odd--", func(v *Values) bool { return v.Proxy.Password == "--odd--" }},
		{"--requirepass -odd", func(v *Values) bool { return v.Proxy.Password == "-odd" }},
		{"--listen 127.0.0.1:1,/tmp/x.sock", func(v *Values) bool {
			return len(v.Listen) == 2 && v.Listen[0] == "127.0.0.1:1" && v.Listen[1] == "/tmp/x.sock"
		}},
		{"--listen [::1]:0", func(v *Values) bool { return v.Listen[0] == "[::1]:0" }},
		{"--admin off", func(v *Values) bool { return v.Admin.Addr == "" }},
		{"--admin=", func(v *Values) bool { return v.Admin.Addr == "" }},
		{"--timeout 300", func(v *Values) bool { return v.Proxy.IdleTimeout == 5*time.Minute }},
		{"--timeout 5m", func(v *Values) bool { return v.Proxy.IdleTimeout == 5*time.Minute }},
		{"--proto-max-bulk-len 2mb", func(v *Values) bool { return v.Proxy.Limits.Bulk == 2<<20 }},
		{"--proto-max-bulk-len 2m", func(v *Values) bool { return v.Proxy.Limits.Bulk == 2e6 }},
		{"--proto-max-bulk-len 3000000", func(v *Values) bool { return v.Proxy.Limits.Bulk == 3e6 }},
		{"--log-level WARN", func(v *Values) bool { return v.LogLevel == slog.LevelWarn }},
	} {
		v, err := load(strings.Fields(test.args), nil)
		if err != nil {
			t.Errorf("%s: %v", test.args, err)
		} else if !test.want(v) {
			t.Errorf("%s: %+v", test.args, v)
		}
	}
}

func TestFlagErrors(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"--lock-lease 30", `--lock-lease 30: lock-lease needs a unit: 30s or 30ms; allowed: 1ms to 8760h`},
		{"--lock-lease soon",
			`--lock-lease soon: lock-lease must be a duration, such as 30s, 500ms or 10m; allowed: ` +
				`1ms to 8760h`},
		{"--topology-refresh 2s",
			`--topology-refresh 2s: topology-refresh must be between 50ms and 1s inclusive; allowed: ` +
				`50ms to 1s`},
		{"--metrics-lock-prefixes a" + strings.Repeat(",b", 50),
			"--metrics-lock-prefixes a" + strings.Repeat(",b", 50) + ": metrics-lock-prefixes must be " +
				"50 words at most, and 51 are given; allowed: up to 50 words of 64 bytes, with commas"},
		{"--maxclients 0",
			`--maxclients 0: maxclients must be between 1 and 1000000 inclusive; allowed: 1 to 1000000`},
		{"--maxclients many",
			`--maxclients many: maxclients couldn't be parsed into an integer; allowed: 1 to 1000000`},
		{"--proto-max-bulk-len 1kb",
			`--proto-max-bulk-len 1kb: proto-max-bulk-len must be between 1048576 and 1099511627776 ` +
				`inclusive; allowed: 1mb to 1024gb`},
		{"--proto-max-bulk-len 1tb",
			`--proto-max-bulk-len 1tb: proto-max-bulk-len must be a memory value; allowed: 1mb to 1024gb`},
		{"--proto-max-bulk-len -5",
			`--proto-max-bulk-len -5: proto-max-bulk-len must be a memory value; allowed: 1mb to 1024gb`},
		{"--proto-max-bulk-len 99999999999gb",
			`--proto-max-bulk-len 99999999999gb: proto-max-bulk-len must be a memory value; allowed: ` +
				`1mb to 1024gb`},
		{"--timeout 1.5s",
			`--timeout 1.5s: timeout couldn't be parsed into an integer; allowed: seconds, 0 to 2147483647`},
		{"--log-level loud",
			`--log-level loud: log-level must be one of the following: debug, info, warn, error; allowed: ` +
				`debug, info, warn, error`},
		{"--protected-mode=maybe",
			`--protected-mode maybe: protected-mode must be 'yes' or 'no'; allowed: yes or no`},
		{"--listen 6380",
			`--listen 6380: listen must be host:port, and "6380" is not; allowed: ` +
				`host:port or /path, several with commas`},
		{"--listen 127.0.0.1:70000",
			`--listen 127.0.0.1:70000: listen needs a port of 0 to 65535, and "127.0.0.1:70000" has not; ` +
				`allowed: host:port or /path, several with commas`},
		{"--listen a:1,a:1",
			`--listen a:1,a:1: listen names a:1 twice; allowed: host:port or /path, several with commas`},
		{"--upstream 10.0.0.1",
			`--upstream 10.0.0.1: upstream must be host:port, and "10.0.0.1" is not; allowed: ` +
				`host:port or /path, several with commas`},
		{"--upstream rediss://me:sesame@a:1/2",
			`--upstream rediss://...: upstream must be host:port, and a URL is not: write localhost:6379 ` +
				`for redis://localhost:6379, with upstream-tls yes for rediss:// and valkeys://, and ` +
				`upstream-user and upstream-password; clients choose the database, by SELECT; allowed: ` +
				`host:port or /path, several with commas`},
		{"--listen redis://a:1",
			`--listen redis://...: listen must be host:port, and a URL is not: write localhost:6379 for ` +
				`redis://localhost:6379; allowed: host:port or /path, several with commas`},
		{"--admin-hosts name:6390",
			`--admin-hosts name:6390: admin-hosts must be host names without ports, and "name:6390" is not ` +
				`one; allowed: host names, several with commas`},
		{"--lock-prefix {x}",
			`--lock-prefix {x}: lock-prefix must not contain { or }: ` +
				`they would change the slot of every lock; allowed: any text without { and }`},
		{"--lock-leese 30s", `--lock-leese: there is no such setting; did you mean --lock-lease?`},
		{"--lease 30s", `--lease: there is no such setting; did you mean --lock-lease?`},
		{"--port 6380", `--port: there is no such setting; lockproxy --help lists them`},
		{"--lock-lease",
			`--lock-lease: needs a value; allowed: 1ms to 8760h (one that begins with -- is written ` +
				`--lock-lease=VALUE)`},
		{"--lock-lease --dev",
			`--lock-lease: needs a value; allowed: 1ms to 8760h (one that begins with -- is written ` +
				`--lock-lease=VALUE)`},
		{"-requirepass sesame", "-requirepass: settings are written --requirepass VALUE"},
		{"requirepass sesame serve", "requirepass: settings are written --requirepass VALUE\nserve: " +
			"neither a setting (--name value) nor a subcommand; lockproxy --help lists both"},
		{"-requirepass=sesame", `-requirepass: settings are written --requirepass VALUE`},
		{"requirepas=sesame",
			`requirepas: neither a setting (--name value) nor a subcommand; lockproxy --help lists both`},
		{"lokc", `lokc: neither a setting (--name value) nor a subcommand; did you mean lock?`},
		{"serve", `serve: neither a setting (--name value) nor a subcommand; lockproxy --help lists both`},
		{"--dev perhaps",
			`perhaps: neither a setting (--name value) nor a subcommand; lockproxy --help lists both`},
	} {
		_, err := load(strings.Fields(c.args), nil)
		if err == nil || err.Error() != c.want {
			t.Errorf("%s\n got: %v\nwant: %s", c.args, err, c.want)
		}
	}
}

// All mistakes are told at once, those of the file first and by lines, and no secret in any of them. A
// mistake that may be the consequence of another one is not told.
func TestErrorsAreToldTogether(t *testing.T) {
	path := writeConfig(t, "lock-max-lease 1h\ntls-cert a\nlock-lease 2h\nloops x\nredlock a:1\n"+
		"listen :6380\nrequirepass \"hunter2")
	_, err := loadChecked([]string{"--maxclients", "0", "serve", "--config", path},
		[]string{"LOCKPROXY_LISTN=:1", "LOCKPROXY_AUDT_LOG=x", "LOCKPROXY_UPSTREAM=a:1"})
	const want = "2: tls-cert and tls-key: only one of them is given, and they need each other\n" +
		"3: lock-lease 2h: must not be longer than lock-max-lease, which is 1h\n" +
		"3: lock-lease 2h: must not be longer than redlock-max-lease, which is 1m\n" +
		"4: loops x: loops couldn't be parsed into an integer; allowed: 0 to 256\n" +
		"5: redlock: 1 of at least 3 masters are named; if it is one Redis, name it with upstream\n" +
		"7: requirepass: its quotes are not balanced, or something follows a closing quote without a " +
		"space\n" +
		"LOCKPROXY_AUDT_LOG: there is no such setting; did you mean LOCKPROXY_AUDIT_LOG?\n" +
		"LOCKPROXY_LISTN: there is no such setting; did you mean LOCKPROXY_LISTEN?\n" +
		"--maxclients 0: maxclients must be between 1 and 1000000 inclusive; allowed: 1 to 1000000\n" +
		"serve: neither a setting"
	got := fmt.Sprint(err)
	if got = strings.ReplaceAll(got, path+":", ""); !strings.HasPrefix(got, want) {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if strings.Contains(got, "hunter2") {
		t.Error("a secret is told")
	}
	if s := Find("requirepass"); strings.Contains(s.shownValue("hunter2"), "hunter2") {
		t.Error("a secret is shown")
	}
}

// A config file that cannot be read is the only mistake: what it has is not missing.
func TestConfigFileIsMissing(t *testing.T) {
	path := t.TempDir() + "/missing"
	_, err := loadChecked([]string{"--config", path}, nil)
	if got, want := fmt.Sprint(err), "--config "+path+": no such file or directory"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestHelpAndVersionAreAskedFor(t *testing.T) {
	for arg, want := range map[string]error{"--help": ErrHelp, "-h": ErrHelp, "--version": ErrVersion,
		"-v": ErrVersion} {
		if _, err := load([]string{"--dev", arg, "--nonsense"}, nil); !errors.Is(err, want) {
			t.Errorf("%s: %v", arg, err)
		}
	}
}
