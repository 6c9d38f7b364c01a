package main

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"lockproxy/cmd/lockproxy/files"
	"lockproxy/cmd/lockproxy/settings"
	"lockproxy/integration/rig"
)

// converse sends commands, one a line, and returns all that comes back until the
// connection ends.
func converse(t *testing.T, conn net.Conn, lines ...string) string {
	t.Helper()
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(patience))
	fmt.Fprint(conn, strings.Join(append(lines, "QUIT"), "\r\n")+"\r\n")
	replies, err := io.ReadAll(bufio.NewReader(conn))
	if err != nil {
		t.Fatalf("after %q: %v", replies, err)
	}
	return string(replies)
}

// startReal starts the program with its real data plane.
func startReal(t *testing.T, args string) *running {
	t.Helper()
	v, err := loaded(strings.Fields(args), nil)
	if err != nil {
		t.Fatal(err)
	}
	certs, err := files.ReadCerts(v)
	if err != nil {
		t.Fatal(err)
	}
	r := &running{new(safeBuffer), make(chan os.Signal, 2), make(chan error, 1), make(chan int, 1)}
	p := newProgram(settings.NewConfig(v), certs, r.log)
	go func() { r.ended <- p.run(r.signals) }()
	t.Cleanup(func() {
		r.signals <- syscall.SIGTERM
		if err := r.wait(t); err != nil {
			t.Error(err)
		}
	})
	return r
}

// --dev serves on TCP and on a unix socket, and what happens there is counted.
func TestDevServes(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "lockproxy.sock")
	r := startReal(t, "--dev --metrics-lock-prefixes jo,mail: --admin 127.0.0.1:0 "+
		"--listen 127.0.0.1:0,"+socket)
	addr := r.log.find(t, `msg=listening addr=(127\.0\.0\.1:\d+)\n`)
	r.log.find(t, `msg=listening addr=\S+\.sock\n`)
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := converse(t, conn, "SET k v", "GET k", "UNLOCK job nobody"),
		"+OK\r\n$1\r\nv\r\n$-1\r\n+OK\r\n"; got != want {
		t.Errorf("over TCP: %q, want %q", got, want)
	}
	if conn, err = net.Dial("unix", socket); err != nil {
		t.Fatal(err)
	}
	got := converse(t, conn, "LOCK job TOKEN me PX 500000", "UNLOCK job me")
	if !strings.HasPrefix(got, "*4\r\n$2\r\nme\r\n:") {
		t.Errorf("over the unix socket: %q", got)
	}
	admin := "http://" + r.log.find(t, `msg="admin listening" addr=(\S+)\n`)
	if code, body := get(t, admin+"/readyz"); code != 200 {
		t.Errorf("/readyz: %d %s", code, body)
	}
	_, metrics := get(t, admin+"/metrics")
	for _, want := range []string{
		`lockproxy_commands_total{command="set"} 1`,
		`lockproxy_command_duration_seconds_bucket{command="set",le="+Inf"} 1`,
		`lockproxy_lock_outcomes_total{outcome="granted",verb="lock"} 1`,
		`lockproxy_lock_outcomes_total{outcome="not_held",verb="unlock"} 1`,
		`lockproxy_lock_wait_seconds_count{outcome="granted",prefix="jo",verb="lock"} 1`,
		`lockproxy_lock_hold_seconds_count{outcome="released",prefix="jo",verb="lock"} 1`,
		`lockproxy_lock_hold_seconds_bucket{outcome="released",prefix="jo",verb="lock",le="600"} 1`,
		"lockproxy_clients_accepted_total 2",
		`lockproxy_node_connections{node="127.0.0.1:`,
	} {
		if !strings.Contains(metrics, want) {
			t.Errorf("/metrics lacks %s", want)
		}
	}
}

// The settings of clients arrive at the data lifecycle.Plane, CONFIG SET included.
func TestSettingsReachTheDataPlane(t *testing.T) {
	cert, key := selfSigned(t)
	r := startReal(t, "--dev --listen 127.0.0.1:0 --admin off --requirepass first --tls-cert "+cert+
		" --tls-key "+key)
	addr := r.log.find(t, `msg=listening addr=(\S+)\n`)
	dial := func() net.Conn {
		conn, err := tls.Dial("tcp", addr, &tls.Config{InsecureSkipVerify: true})
		if err != nil {
			t.Fatal(err)
		}
		return conn
	}
	if got := converse(t, dial(), "GET k"); !strings.HasPrefix(got, "-NOAUTH ") {
		t.Errorf("without the password: %q", got)
	}
	got := converse(t, dial(), "AUTH first", "CONFIG SET requirepass second", "CONFIG GET requirepass",
		"CONFIG SET listen :1")
	want := "+OK\r\n+OK\r\n*2\r\n$11\r\nrequirepass\r\n$6\r\nsecond\r\n-ERR CONFIG SET failed (possibly " +
		"related to argument 'listen') - can't set immutable config\r\n+OK\r\n"
	if got != want {
		t.Errorf("got %q\nwant %q", got, want)
	}
	if got := converse(t, dial(), "AUTH first", "AUTH second", "PING"); !strings.HasPrefix(got,
		"-WRONGPASS ") || !strings.HasSuffix(got, "+OK\r\n+PONG\r\n+OK\r\n") {
		t.Errorf("with the old and the new password: %q", got)
	}
}

// What says where locks are kept has to be the same in all proxies, in whatever order it is written.
func TestSettingsThatAreAlike(t *testing.T) {
	read := func(args ...string) map[string]string {
		v, err := loaded(append([]string{"--upstream", "a:1"}, args...), nil)
		if err != nil {
			t.Fatal(err)
		}
		return v.Same()
	}
	usual := read()
	for _, c := range []struct{ names, args string }{
		{"", "--lock-lease 7s --listen 127.0.0.1:1 --redlock-max-lease 5m"}, // there is no RedLock
		{"lock-prefix", "--lock-prefix l:"},
		{"lock-compat", "--lock-compat a:,b:"},
		{"lock-failover-grace", "--lock-failover-grace 1m"},
		{"redlock redlock-max-lease", "--redlock a:1,b:2,c:3"},
		{"redlock redlock-max-lease redlock-prefix", "--redlock a:1,b:2,c:3 --redlock-prefix p:"},
	} {
		var differ []string
		for name, value := range read(strings.Fields(c.args)...) {
			if value != usual[name] {
				differ = append(differ, name)
			}
		}
		if slices.Sort(differ); strings.Join(differ, " ") != c.names {
			t.Errorf("%s: %q differ", c.args, differ)
		}
	}
	for _, same := range [][2]string{
		{"--redlock a:1,b:2,c:3", "--redlock c:3,a:1,b:2 --lock-fleet x"},
		{"--lock-compat a:,b:", "--lock-compat b:,a:"},
		{"--redlock a:1,b:2,c:3 --redlock-max-lease 5m --lock-max-lease 1m",
			"--redlock a:1,b:2,c:3 --redlock-max-lease 1m --lock-max-lease 5m"},
	} {
		a, b := read(strings.Fields(same[0])...), read(strings.Fields(same[1])...)
		if !maps.Equal(a, b) {
			t.Errorf("%s, %s: %q, %q", same[0], same[1], a, b)
		}
	}
}

// loaded are the settings as the program reads them.
func loaded(args, environ []string) (*settings.Values, error) {
	return settingsFrom(args, environ).Load()
}

func configOf(t *testing.T, args string) *settings.Config {
	t.Helper()
	v, err := loaded(strings.Fields(args), nil)
	if err != nil {
		t.Fatal(err)
	}
	return settings.NewConfig(v)
}

// selfSigned writes a certificate for 127.0.0.1 that is its own authority.
func selfSigned(t *testing.T) (cert, key string) {
	a := &rig.Authority{Dir: t.TempDir()}
	a.Issue(t, "own", rig.LoopbackIP)
	return a.File("own.crt"), a.File("own.key")
}
