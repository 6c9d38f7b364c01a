package transcripts

import (
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"lockproxy/integration/rig"
)

func itoa(n int) string { return strconv.Itoa(n) }

// The admin listener: what the metrics count is what happened.
func TestAdmin(t *testing.T) {
	t.Parallel()
	p := rig.StartProxy(t, "--upstream", rig.SharedCluster().Addrs())
	c, other := rig.Connect(t, p.Addr), rig.Connect(t, p.Addr)
	for range 7 {
		c.Must(t, "GET", "admin")
	}
	c.Must(t, "SET", "admin", "text")
	c.Call(t, "INCR", "admin")
	c.Must(t, "LOCK", "admin", "TOKEN", "t")
	other.Must(t, "LOCK", "admin")
	other.Must(t, "LOCK", "admin", "WAIT", "20")
	other.Send("LOCK", "admin", "WAIT", "60000", "TOKEN", "w")
	rig.WaitersOf(t, p.Addr, "admin", 1)
	for _, want := range []struct {
		family string
		with   []string
		value  float64
	}{
		{"lockproxy_clients", nil, 2},
		{"lockproxy_commands_total", []string{`command="get"`}, 7},
		{"lockproxy_commands_total", []string{`command="lock"`}, 3},
		{"lockproxy_command_errors_total", []string{`command="incr"`}, 1},
		{"lockproxy_command_duration_seconds_count", []string{`command="get"`}, 7},
		{"lockproxy_lock_waiters", nil, 1},
		{"lockproxy_lock_outcomes_total", []string{`verb="lock"`, `outcome="granted"`}, 1},
		{"lockproxy_ready", nil, 1},
		{"lockproxy_build_info", nil, 1},
	} {
		// Connections that were closed are noticed a little later.
		rig.Eventually(t, rig.Patience,
			fmt.Sprintf("%s%v is %v", want.family, want.with, want.value), func() bool {
				return p.Metric(t, want.family, want.with...) == want.value
			})
	}
	for _, family := range []string{"lockproxy_node_requests_total", "lockproxy_node_connections",
		"lockproxy_received_bytes_total", "lockproxy_sent_bytes_total", "go_goroutines"} {
		if p.Metric(t, family) <= 0 {
			t.Errorf("%s is 0", family)
		}
	}
	_, body, _ := p.Get("/metrics")
	for _, secret := range []string{"admin", `"t"`, `"w"`} {
		if strings.Contains(body, secret) {
			t.Errorf("/metrics shows %s", secret)
		}
	}
	for path, want := range map[string]int{"/healthz": 200, "/readyz": 200, "/debug/pprof/": 404,
		"/nosuch": 404} {
		if status, body, err := p.Get(path); status != want {
			t.Errorf("%s: %d %v, want %d: %s", path, status, err, want, body)
		}
	}
	c.Want(t, "(integer) 1", "UNLOCK", "admin", "t")
	if v, err := other.Receive(rig.Patience); err != nil || len(v.Elems) != 4 {
		t.Errorf("%s %v", v, err)
	}
	other.Must(t, "UNLOCK", "admin", "w")
	if got := p.Metric(t, "lockproxy_lock_outcomes_total", `verb="unlock"`); got != 2 {
		t.Errorf("outcomes of unlock: %v", got)
	}
}

// The program as it is called: help, version, health, settings from everywhere.
func TestCommandLine(t *testing.T) {
	t.Parallel()
	p := startCommandProxy(t)
	admin := strings.TrimPrefix(p.Admin, "http://")
	for _, tt := range []struct {
		args string
		code int
		want string
	}{
		{"--help", 0, "--lock-lease"},
		{"--version", 0, "lockproxy "},
		{"", 2, "--upstream"},
		{"--dev --nosuch 1", 2, "--nosuch"},
		{"--dev --lock-lease 5", 2, "lock-lease"},
		{"--dev --upstream 127.0.0.1:1", 2, "upstream"},
		{"--config /no/such/file", 2, "/no/such/file"},
		{"--dev --tls-cert /no/such/file --tls-key /no/such/file", 2, "tls-cert"},
		{"--dev --admin off --listen " + p.Addr, 1, p.Addr},
		{"--dev --redlock 127.0.0.1:1,127.0.0.1:2", 2, "redlock"},
		{"health --admin " + admin, 0, ""},
		{"health --admin 127.0.0.1:1", 1, "127.0.0.1:1"},
	} {
		run := rig.StartProcess(t, rig.Binary(t), strings.Fields(tt.args)...)
		if code := run.Wait(rig.Patience); code != tt.code || !strings.Contains(run.Log.String(), tt.want) {
			t.Errorf("lockproxy %s: exit code %d, want %d and %q\n%s", tt.args, code, tt.code,
				tt.want, run.Log)
		}
	}
	c := rig.Connect(t, p.Addr)
	c.Want(t, `["lock-lease", "1m10s"]`, "CONFIG", "GET", "lock-lease")
	c.Want(t, `["lock-max-wait", "8s"]`, "CONFIG", "GET", "lock-max-wait")
	c.Want(t, `["lock-max-queue", "9"]`, "CONFIG", "GET", "lock-max-queue")
	grant := c.Must(t, "LOCK", "job")
	if ttl := grant.Elems[2].Int(); ttl > 70_000 || ttl <= 20_000 {
		t.Errorf("ttl %d with lock-lease 70s", ttl)
	}
	if v := c.Call(t, "LOCK", "other", "PX", "99999999999"); !v.IsError("ERR") ||
		!strings.Contains(v.Text, "lock-max-lease") {
		t.Errorf("a lease above lock-max-lease: %s", v)
	}
}

// startCommandProxy starts a proxy whose settings come from the flags, the
// environment and a file; each wins over the next.
func startCommandProxy(t *testing.T) *rig.Proxy {
	t.Helper()
	file := rig.WriteFile(t, "lockproxy.conf",
		"# a comment\nlock-lease 10s\nlock-max-wait 1s\nlock-max-queue 9\ndev yes\n")
	cmd := exec.Command(rig.Binary(t), "--config", file, "--lock-lease", "70s", "--listen", "127.0.0.1:0",
		"--admin", "127.0.0.1:0")
	cmd.Env = append(cmd.Environ(), "LOCKPROXY_LOCK_LEASE=20s", "LOCKPROXY_LOCK_MAX_WAIT=8s")
	p := &rig.Proxy{Process: rig.StartCommand(t, cmd)}
	t.Cleanup(func() { p.Drain(t) })
	p.Admin = "http://" + p.Logged(t, `msg="admin listening" addr=(\S+)`)
	p.Addr = p.Logged(t, `msg=listening addr=(\S+)`)
	return p
}

// The queue of a lock is bounded.
func TestQueueFull(t *testing.T) {
	t.Parallel()
	p := rig.StartProxy(t, "--upstream", rig.SharedRedis().Addr, "--lock-max-queue", "2")
	rig.Connect(t, p.Addr).Must(t, "LOCK", "full", "PX", "60000")
	for i := range 2 {
		rig.Connect(t, p.Addr).Send("LOCK", "full", "WAIT", "60000")
		rig.WaitersOf(t, p.Addr, "full", int64(i+1))
	}
	if v := rig.Connect(t, p.Addr).Call(t, "LOCK", "full", "WAIT", "60000"); !v.IsError("QUEUEFULL") {
		t.Errorf("the third waiter: %s", v)
	}
	rig.Connect(t, p.Addr).Want(t, "(nil)", "LOCK", "full")
}
