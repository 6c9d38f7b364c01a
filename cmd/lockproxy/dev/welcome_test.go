package dev

import (
	"net"
	"strings"
	"testing"

	"lockproxy/cmd/lockproxy/settings"
	"lockproxy/integration/rig"
)

// What is said can be typed as it is, whatever the settings are.
func TestHints(t *testing.T) {
	a := &rig.Authority{Dir: t.TempDir()}
	a.Issue(t, "own", rig.LoopbackIP)
	own, key := a.File("own.crt"), a.File("own.key")
	tcp := func(ip string, port int) net.Addr { return &net.TCPAddr{IP: net.ParseIP(ip), Port: port} }
	for _, c := range []struct {
		args           string
		clients, admin net.Addr
		want           []string
		never          string
	}{
		{"", tcp("127.0.0.1", 6380), tcp("127.0.0.1", 6390),
			[]string{"redis-cli -p 6380 LOCK", "http://127.0.0.1:6390", "lockproxy lock job -- "},
			"REDISCLI_AUTH"},
		{"", tcp("::1", 7), nil, []string{"redis-cli -h ::1 -p 7 LOCK", "lock --proxy [::1]:7 job"}, "http"},
		{"--requirepass secret", tcp("::", 6380), nil,
			[]string{"export REDISCLI_AUTH=", "redis-cli -p 6380 LOCK"}, "secret"},
		{"--requirepass-file /x", tcp("::", 6380), tcp("127.0.0.1", 6390),
			[]string{"export REDISCLI_AUTH=", "with --admin-password too, then http://127.0.0.1:6390"},
			"look at it"},
		{"--requirepass x --admin-password y", tcp("::", 6380), tcp("127.0.0.1", 6390),
			[]string{"look at it in a browser     http://127.0.0.1:6390"}, "start it"},
		{"", &net.UnixAddr{Name: "/tmp/s", Net: "unix"}, nil,
			[]string{"redis-cli -s /tmp/s LOCK", "lockproxy lock --proxy /tmp/s job"}, "-p "},
		{"--tls-cert a --tls-key b --admin-tls-cert a --admin-tls-key b", tcp("127.0.0.1", 6380),
			tcp("127.0.0.1", 9), []string{"redis-cli -p 6380 --tls --cacert AUTHORITY-OF-a LOCK",
				"lock --tls --cacert AUTHORITY-OF-a job", "https://"}, "http:"},
		{"--tls-cert " + own + " --tls-key " + key, tcp("127.0.0.1", 6380), nil,
			[]string{"redis-cli -p 6380 --tls --cacert " + own + " LOCK",
				"lock --tls --cacert " + own + " job"}, "AUTHORITY"},
		{"--tls-cert a --tls-key b", &net.UnixAddr{Name: "/tmp/s", Net: "unix"}, nil,
			[]string{"redis-cli -s /tmp/s LOCK"}, "--tls"},
	} {
		v, err := settings.Sources{Args: strings.Fields("--dev " + c.args)}.Load()
		if err != nil {
			t.Fatal(err)
		}
		text := banner(c.clients, hints("lockproxy", v, c.clients, c.admin))
		for _, want := range c.want {
			if !strings.Contains(text, want) {
				t.Errorf("%s: no %s in\n%s", c.args, want, text)
			}
		}
		if strings.Contains(text, c.never) {
			t.Errorf("%s: there is %s in\n%s", c.args, c.never, text)
		}
	}
}

// The program is named as it was started.
func TestTyped(t *testing.T) {
	for path, want := range map[string]string{
		"lockproxy": "lockproxy", "bin/lockproxy": "bin/lockproxy",
		"/usr/bin/lockproxy":                                   "/usr/bin/lockproxy",
		"/tmp/go-build2601/b001/exe/lockproxy":                 "go run ./cmd/lockproxy",
		"/home/a/.cache/go-build/1f/1f2e-d/lockproxy":          "go run ./cmd/lockproxy",
		"/var/folders/x/T/go-build17/b001/exe/lockproxy-proxy": "go run ./cmd/lockproxy",
	} {
		if got := typed(path); got != want {
			t.Errorf("%s is typed %q, want %q", path, got, want)
		}
	}
}
