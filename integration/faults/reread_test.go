package faults

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"lockproxy/integration/rig"
)

// rewrite replaces the config file of a proxy, and has it reread.
func rewrite(t *testing.T, p *rig.Proxy, path string, lines ...string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	if p != nil {
		p.Signal(syscall.SIGHUP)
	}
}

// SIGHUP takes over what can change, names what cannot, and changes nothing if anything is wrong.
func TestReread(t *testing.T) {
	t.Parallel()
	redis := rig.StartRedis(t, "--requirepass", "one")
	path := filepath.Join(t.TempDir(), "proxy.conf")
	rewrite(t, nil, path, "upstream "+redis.Addr, "upstream-password one", "requirepass a", "lock-prefix x:")
	p := rig.StartProxy(t, "--config", path)
	enter := func(password string) *rig.Conn {
		c := rig.Connect(t, p.Addr)
		c.Want(t, "OK", "AUTH", password)
		return c
	}
	c := enter("a")
	c.Want(t, "OK", "CONFIG", "SET", "maxclients", "50", "timeout", "77")
	const timeout = `["timeout", "77"]`

	rewrite(t, p, path, "upstream "+redis.Addr, "upstream-password one", "requirepass a", "lock-laese 30s",
		"timeout 9", "loops x")
	p.Logged(t, `level=ERROR msg="settings reread and not used: all stay as they are" (mistakes=2)`)
	p.Logged(t, `err="[^"]*proxy.conf:4: (lock-laese): there is no such setting; did you mean lock-lease\?"`)
	p.Logged(t, `err="[^"]*proxy.conf:6: (loops) x: loops couldn't be parsed`)
	c.Want(t, timeout, "CONFIG", "GET", "timeout")

	rewrite(t, p, path, "upstream "+redis.Addr, "upstream-password two", "requirepass b", "lock-prefix y:",
		"timeout 9")
	p.Logged(t, `level=WARN msg="a setting has changed and needs a restart" setting=(lock-prefix) `+
		`running=x: then=y:`)
	p.Logged(t, `msg="setting changed" setting=(requirepass) value="\(not shown\)" by=SIGHUP`)
	p.Logged(t, `msg="setting changed" setting=timeout value=(9) by=SIGHUP`)
	p.Logged(t, `msg="setting changed" setting=maxclients value=(10000) by=SIGHUP`)
	p.Logged(t, `msg="settings reread" (changed=4) restart=1`)
	if v := rig.Connect(t, p.Addr).Call(t, "AUTH", "a"); !v.IsError("WRONGPASS") {
		t.Errorf("the password of before: %v", v)
	}
	enter("b").Want(t, `["lock-prefix", "x:"]`, "CONFIG", "GET", "lock-prefix")

	// Connections to the upstream that are made from now on have the new password.
	direct := rig.Connect(t, redis.Addr)
	direct.Want(t, "OK", "AUTH", "one")
	direct.Want(t, "OK", "CONFIG", "SET", "requirepass", "two")
	direct.Must(t, "CLIENT", "KILL", "SKIPME", "yes")
	enter("b").Want(t, "OK", "SET", "k", "v")
}
