package integration

import (
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"testing"
)

func itoa(n int) string { return strconv.Itoa(n) }

// The admin listener: what the metrics count is what happened.
func TestAdmin(t *testing.T) {
	t.Parallel()
	p := startProxy(t, "--upstream", sharedCluster().addrs())
	c, other := connect(t, p.addr), connect(t, p.addr)
	for range 7 {
		c.must(t, "GET", "admin")
	}
	c.must(t, "SET", "admin", "text")
	c.call(t, "INCR", "admin")
	c.must(t, "LOCK", "admin", "TOKEN", "t")
	other.must(t, "LOCK", "admin")
	other.must(t, "LOCK", "admin", "WAIT", "20")
	other.send("LOCK", "admin", "WAIT", "60000", "TOKEN", "w")
	waitersOf(t, p.addr, "admin", 1)
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
		eventually(t, patience, fmt.Sprintf("%s%v is %v", want.family, want.with, want.value), func() bool {
			return p.metric(t, want.family, want.with...) == want.value
		})
	}
	for _, family := range []string{"lockproxy_node_requests_total", "lockproxy_node_connections", "lockproxy_received_bytes_total", "lockproxy_sent_bytes_total", "go_goroutines"} {
		if p.metric(t, family) <= 0 {
			t.Errorf("%s is 0", family)
		}
	}
	_, body, _ := p.get("/metrics")
	for _, secret := range []string{"admin", `"t"`, `"w"`} {
		if strings.Contains(body, secret) {
			t.Errorf("/metrics shows %s", secret)
		}
	}
	for path, want := range map[string]int{"/healthz": 200, "/readyz": 200, "/debug/pprof/": 404, "/nosuch": 404} {
		if status, body, err := p.get(path); status != want {
			t.Errorf("%s: %d %v, want %d: %s", path, status, err, want, body)
		}
	}
	c.want(t, "(integer) 1", "UNLOCK", "admin", "t")
	if v, err := other.receive(patience); err != nil || len(v.elems) != 4 {
		t.Errorf("%s %v", v, err)
	}
	other.must(t, "UNLOCK", "admin", "w")
	if got := p.metric(t, "lockproxy_lock_outcomes_total", `verb="unlock"`); got != 2 {
		t.Errorf("outcomes of unlock: %v", got)
	}
}

// The program as it is called: help, version, health, settings from everywhere.
func TestCommandLine(t *testing.T) {
	t.Parallel()
	p := startCommandProxy(t)
	admin := strings.TrimPrefix(p.admin, "http://")
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
		{"--dev --listen " + p.addr, 1, p.addr},
		{"--dev --redlock 127.0.0.1:1,127.0.0.1:2", 2, "redlock"},
		{"health --admin " + admin, 0, ""},
		{"health --admin 127.0.0.1:1", 1, "127.0.0.1:1"},
	} {
		run := startProcess(t, binary(t), strings.Fields(tt.args)...)
		if code := run.wait(patience); code != tt.code || !strings.Contains(run.log.String(), tt.want) {
			t.Errorf("lockproxy %s: exit code %d, want %d and %q\n%s", tt.args, code, tt.code, tt.want, run.log)
		}
	}
	help := startProcess(t, binary(t), "--help")
	help.wait(patience)
	for i, line := range strings.Split(help.log.String(), "\n") {
		if len(line) > 110 || i > 66 {
			t.Errorf("--help does not fit on a screen: line %d, %d wide", i+1, len(line))
			break
		}
	}
	c := connect(t, p.addr)
	c.want(t, `["lock-lease", "7s"]`, "CONFIG", "GET", "lock-lease")
	c.want(t, `["lock-max-wait", "8s"]`, "CONFIG", "GET", "lock-max-wait")
	c.want(t, `["lock-max-queue", "9"]`, "CONFIG", "GET", "lock-max-queue")
	grant := c.must(t, "LOCK", "job")
	if ttl := grant.elems[2].int(); ttl > 7000 || ttl < 6000 {
		t.Errorf("ttl %d with lock-lease 7s", ttl)
	}
	if v := c.call(t, "LOCK", "other", "PX", "99999999999"); !v.isError("ERR") || !strings.Contains(v.text, "lock-max-lease") {
		t.Errorf("a lease above lock-max-lease: %s", v)
	}
}

// startCommandProxy starts a proxy whose settings come from the flags, the
// environment and a file; each wins over the next.
func startCommandProxy(t *testing.T) *lockproxy {
	t.Helper()
	file := writeFile(t, "lockproxy.conf", "# a comment\nlock-lease 1s\nlock-max-wait 1s\nlock-max-queue 9\ndev yes\n")
	cmd := exec.Command(binary(t), "--config", file, "--lock-lease", "7s", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0")
	cmd.Env = append(cmd.Environ(), "LOCKPROXY_LOCK_LEASE=2s", "LOCKPROXY_LOCK_MAX_WAIT=8s")
	p := &lockproxy{process: startCommand(t, cmd)}
	t.Cleanup(func() { p.drain(t) })
	p.admin = "http://" + p.logged(t, `msg="admin listening" addr=(\S+)`)
	p.addr = p.logged(t, `msg=listening addr=(\S+)`)
	return p
}

// The queue of a lock is bounded.
func TestQueueFull(t *testing.T) {
	t.Parallel()
	p := startProxy(t, "--upstream", sharedRedis().addr, "--lock-max-queue", "2")
	connect(t, p.addr).must(t, "LOCK", "full", "PX", "60000")
	for i := range 2 {
		connect(t, p.addr).send("LOCK", "full", "WAIT", "60000")
		waitersOf(t, p.addr, "full", int64(i+1))
	}
	if v := connect(t, p.addr).call(t, "LOCK", "full", "WAIT", "60000"); !v.isError("QUEUEFULL") {
		t.Errorf("the third waiter: %s", v)
	}
	connect(t, p.addr).want(t, "(nil)", "LOCK", "full")
}
