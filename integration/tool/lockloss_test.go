package tool

import (
	"fmt"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"lockproxy/integration/rig"
)

// worker is a command that starts another process, tells its number, and says whether it is told to end.
const worker = `trap 'echo told; exit 5' TERM; sleep 1000 & echo "$! started"; while :; do sleep 0.02; done`

// deaf is one that does not end by itself, and neither does what it has started.
const deaf = `trap '' TERM; sleep 1000 & echo "$! started"; while :; do sleep 0.02; done`

// child is the process that worker or deaf has started.
func child(t *testing.T, p *rig.Process) int {
	t.Helper()
	says(t, p, " started")
	text, _, _ := strings.Cut(p.Log.String(), " started")
	n, err := strconv.Atoi(text[strings.LastIndexByte(text, '\n')+1:])
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Kill(n, syscall.SIGKILL) }) // or a test that fails would wait for it for ever
	return n
}

// gone says that a process has ended, or nobody but init has still to know of it.
func gone(pid int) bool { return syscall.Kill(pid, 0) != nil || state(pid) == "Z" }

// A lock that is lost ends the command and what it has started: TERM, then KILL. R19
func TestLockIsLost(t *testing.T) {
	t.Parallel()
	dev := rig.StartProxy(t, "--dev")
	c := rig.Connect(t, dev.Addr)
	for _, test := range []struct {
		script, grace string
		told          bool
	}{{worker, "10s", true}, {deaf, "300ms", false}} {
		p := start(t, dev.Addr, "lock", "--grace", test.grace, "job", "--", "sh", "-c", test.script)
		pid := child(t, p)
		c.Want(t, "(integer) 1", "LOCKCTL", "BREAK", "job")
		if code := p.Wait(rig.Patience); code != 79 ||
			strings.Contains(p.Log.String(), "told") != test.told ||
			!strings.Contains(p.Log.String(), "job: the lock is lost") { // a proxy that could hear says why
			t.Errorf("code %d: %s", code, p.Log.Tail())
		}
		rig.Eventually(t, rig.Patience, "what it has started is ended", func() bool { return gone(pid) })
	}
	// A command that ends before it is told has not been safe either.
	p := start(t, dev.Addr, "lock", "--lease", "60s", "job", "--", "redis-cli", "-u", "redis://"+dev.Addr,
		"LOCKCTL", "BREAK", "job")
	if code := p.Wait(rig.Patience); code != 79 {
		t.Errorf("code %d: %s", code, p.Log.Tail())
	}
}

// fresh is the name of a lock that nobody holds, for a Redis that other tests use as well.
func fresh() string { return fmt.Sprint("fresh:", time.Now().UnixNano()) }

// A connection that breaks costs nothing: another one goes on with the hold. R18
func TestLockSurvivesItsConnection(t *testing.T) {
	t.Parallel()
	redis := rig.SharedRedis().Addr
	a, b := rig.StartProxy(t, "--upstream", redis), rig.StartProxy(t, "--upstream", redis)
	name := fresh()
	link, other := rig.StartLink(t, a.Addr), rig.Connect(t, b.Addr)
	p := start(t, link.Addr(), "lock", name, "--", "sh", "-c",
		`trap 'exit 5' USR1; echo "$LOCKPROXY_TOKEN started"; while :; do sleep 0.02; done`)
	says(t, p, "started")
	token, _, _ := strings.Cut(p.Log.String(), " ")
	link.Cut()
	rig.Eventually(t, rig.Patience, "another connection has the hold", func() bool {
		return a.Metric(t, "lockproxy_lock_outcomes_total", `verb="renew"`, `outcome="renewed"`) == 1 &&
			a.Metric(t, "lockproxy_lock_kept") == 1 && a.Metric(t, "lockproxy_lock_lingering") == 0
	})
	if v := other.Must(t, "LOCKCTL", "CHECK", name, token); len(v.Elems) != 3 {
		t.Errorf("the hold is lost: %s: %s", v, p.Log.Tail())
	}
	p.Signal(syscall.SIGUSR1)
	if code := p.Wait(rig.Patience); code != 5 {
		t.Errorf("code %d: %s", code, p.Log.Tail())
	}
	if len(other.Must(t, "LOCK", name).Elems) != 4 {
		t.Error("the lock is not free")
	}
}

// While the proxy is silent nobody knows of the lock. The command is dead before the lease may end. R18
func TestLockBehindASilentProxy(t *testing.T) {
	t.Parallel()
	redis := rig.SharedRedis().Addr
	a, b := rig.StartProxy(t, "--upstream", redis), rig.StartProxy(t, "--upstream", redis)
	name := fresh()
	p := start(t, a.Addr, "lock", "--lease", "12s", "--grace", "4s", name, "--", "sh", "-c", worker)
	pid := child(t, p)
	a.Signal(syscall.SIGSTOP)
	t.Cleanup(func() { a.Signal(syscall.SIGCONT) })
	grant := rig.Connect(t, b.Addr).Must(t, "LOCK", name, "WAIT", "20000")
	if !gone(pid) {
		t.Errorf("the command runs while somebody else has the lock: %s: %s", grant, p.Log.Tail())
	}
	if code := p.Wait(rig.Patience); code != 79 ||
		!strings.Contains(p.Log.String(), "no proxy has confirmed") {
		t.Errorf("code %d: %s", code, p.Log.Tail())
	}
}

// A tool that is killed cannot look after its command any more, so that is told to end.
func TestLockIsKilled(t *testing.T) {
	t.Parallel()
	dev := rig.StartProxy(t, "--dev")
	p := start(t, dev.Addr, "lock", "job", "--", "sh", "-c", `
		sh -c 'trap "echo child told" TERM; echo ready; while :; do sleep 0.02; done' &
		trap 'echo told; exit 5' TERM; while :; do sleep 0.02; done`)
	says(t, p, "ready")
	p.Signal(syscall.SIGKILL)
	says(t, p, "told")
	says(t, p, "child told")
}

// What does not listen to TERM is killed after the grace, with what it has started.
func TestLockIsKilledAndNobodyListens(t *testing.T) {
	t.Parallel()
	dev := rig.StartProxy(t, "--dev")
	p := start(t, dev.Addr, "lock", "--lease", "6s", "--grace", "300ms", "job", "--", "sh", "-c", deaf)
	pid := child(t, p)
	p.Signal(syscall.SIGKILL)
	rig.Eventually(t, rig.Patience, "the child of the command is gone", func() bool { return gone(pid) })
}
