package tool

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"unicode"

	"lockproxy/integration/rig"
)

// ask sends one command to a proxy, which must not answer with an error.
func ask(t *testing.T, p *rig.Proxy, args ...string) rig.Reply {
	t.Helper()
	v, err := rig.Ask(p.Addr, args...)
	if err != nil {
		t.Fatal(args[0], err)
	}
	return v
}

// locks runs lockproxy locks at p.
func locks(t *testing.T, p *rig.Proxy, code int, args ...string) (output string) {
	t.Helper()
	r := run(t, append([]string{"locks", "--proxy", p.Addr}, args...)...)
	if r.code != code {
		t.Errorf("locks %q: exit code %d, want %d\n%s%s", args, r.code, code, r.stdout, r.stderr)
	}
	return r.stdout
}

// Who holds a lock can be seen by people. R21
func TestLocks(t *testing.T) {
	t.Parallel()
	rig.Everywhere(t, func(t *testing.T, p *rig.Proxy) {
		name := t.Name() + ":job"
		if got := locks(t, p, 0, t.Name()+":*"); strings.Count(got, "\n") != 1 || !strings.HasPrefix(got,
			"NAME ") {
			t.Errorf("no locks: %q", got)
		}
		holder, waiter := rig.Connect(t, p.Addr), rig.Connect(t, p.Addr)
		holder.Call(t, "CLIENT", "SETNAME", "worker")
		fence := holder.Call(t, "LOCK", name, "PX", "3600000", "META", "nightly").Elems[1].Int()
		waiter.Call(t, "CLIENT", "SETNAME", "patient")
		waiter.Send("LOCK", name, "WAIT", "60000")
		rig.Eventually(t, rig.Patience, "one waits", func() bool {
			return ask(t, p, "LOCKCTL", "INFO", name).Field("waiters").Int() == 1
		})
		table := locks(t, p, 0, t.Name()+":*")
		row := strings.Fields(strings.Split(table, "\n")[1])
		if len(row) != 7 || row[0] != name || row[1] != "write" || row[2] != "worker" || row[6] != "1" {
			t.Errorf("%q in\n%s", row, table)
		}
		info := locks(t, p, 0, "info", name)
		for _, part := range []string{"state    write\n", "client worker at 127.0.0.1:", "meta nightly\n",
			"waiters  1\n", "client patient at 127.0.0.1:", fmt.Sprint("fence    ", fence, "\n")} {
			if !strings.Contains(info, part) {
				t.Errorf("info lacks %q:\n%s", part, info)
			}
		}
		var one struct {
			Name, State string
			Fence       int64
			Holders     []struct{ Client, Meta string }
		}
		text := locks(t, p, 0, "info", name, "--json")
		if err := json.Unmarshal([]byte(text), &one); err != nil || one.Name != name || one.Fence != fence ||
			len(one.Holders) != 1 || one.Holders[0].Client != "worker" {
			t.Errorf("%v: %s", err, text)
		}
		locks(t, p, 64, "break", name) // nobody can be asked
		locks(t, p, 64, "info")
		locks(t, p, 64, "burn", name)
		if got := locks(t, p, 0, "break", name, "--yes"); got != name+" is broken\n" {
			t.Error(got)
		}
		if v, err := waiter.Receive(rig.Patience); err != nil || len(v.Elems) != 4 {
			t.Errorf("the waiter got %s, %v", v.Raw, err)
		}
		waiter.Call(t, "UNLOCK", name)
		locks(t, p, 1, "info", name)
		locks(t, p, 1, "break", name, "--yes")
	})
}

// Whoever may name locks does nothing to the terminals of those who look at them.
func TestLocksWithHostileNames(t *testing.T) {
	t.Parallel()
	p := rig.StartProxy(t, "--dev")
	name := "a\x1b[2J\r\nb\a\x7f\xff\u009b1m\u202e" // and one that no argument of a program can have
	ask(t, p, "LOCK", "\x00", "TOKEN", "t")
	ask(t, p, "LOCK", name, "META", "\x1b]0;x\a\xc2\x9bx", "TOKEN", "t")
	watch := exec.Command(rig.Binary(t), "locks", "--proxy", p.Addr, "--watch", "--every", "100ms")
	w := rig.StartCommand(t, watch)
	rig.Eventually(t, rig.Patience, "a line", func() bool { return strings.Contains(w.Log.String(), "\n") })
	w.Signal(syscall.SIGINT)
	if code := w.Wait(rig.Patience); code != 0 {
		t.Errorf("a watch that is interrupted ends with %d", code)
	}
	for what, text := range map[string]string{
		"table": locks(t, p, 0), "info": locks(t, p, 0, "info", name), "json": locks(t, p, 0, "--json"),
		"watch": w.Log.String(), "json of one": locks(t, p, 0, "info", name, "--json"),
		"broken": locks(t, p, 0, "break", name, "--yes"),
	} {
		for _, r := range text {
			if r != '\n' && !unicode.IsPrint(r) {
				t.Errorf("%s has %U: %q", what, r, text)
				break
			}
		}
	}
}

func TestLocksWatched(t *testing.T) {
	t.Parallel()
	p := rig.StartProxy(t, "--dev")
	lines := rig.StartProcess(t, rig.Binary(t), "locks", "order:*", "--proxy", p.Addr, "--watch", "--every",
		"100ms")
	objects := rig.StartProcess(t, rig.Binary(t), "locks", "--proxy", p.Addr, "--watch", "--every", "100ms",
		"--json")
	shows := func(of *rig.Process, text string) {
		t.Helper()
		rig.Eventually(t, rig.Patience, text, func() bool { return strings.Contains(of.Log.String(), text) })
	}
	ask(t, p, "LOCK", "other", "TOKEN", "a")
	shows(objects, `"change":"held","name":"other","state":"write"`)
	ask(t, p, "LOCK", "order:1", "TOKEN", "a")
	shows(lines, ` held name="order:1" state="write"`)
	shows(objects, `"change":"held","name":"order:1"`)
	ask(t, p, "UNLOCK", "order:1", "TOKEN", "a")
	shows(lines, ` gone name="order:1" state="free"`)
	shows(objects, `"change":"gone","name":"order:1"`)
	if strings.Contains(lines.Log.String(), "other") || strings.Contains(lines.Log.String(), "\x1b") {
		t.Errorf("the lines are %q", lines.Log)
	}
	for _, w := range []*rig.Process{lines, objects} {
		w.Signal(syscall.SIGTERM)
		if code := w.Wait(rig.Patience); code != 0 {
			t.Errorf("ended with %d", code)
		}
	}
}

func TestTenThousandLocks(t *testing.T) {
	t.Parallel()
	p := rig.StartProxy(t, "--upstream", rig.StartRedis(t).Addr)
	const all = 10_000
	rig.HoldMany(t, p.Addr, "job-%05d", all)
	r := run(t, "locks", "--proxy", p.Addr)
	if n := strings.Count(r.stdout, "\n"); r.code != 0 || n != all+1 {
		t.Errorf("exit code %d, %d lines %s", r.code, n, r.stderr)
	}
	if !strings.Contains(r.stderr, "there may be more") {
		t.Errorf("stderr: %q", r.stderr)
	}
	var found []struct{ Name string }
	if err := json.Unmarshal([]byte(locks(t, p, 0, "--json", "job-00*")),
		&found); err != nil || len(found) != 1000 {
		t.Errorf("%v, %d locks", err, len(found))
	}
}

func TestLocksWithoutAProxy(t *testing.T) {
	t.Parallel()
	nowhere := "127.0.0.1:" + strconv.Itoa(rig.FreePort(t))
	if r := run(t, "locks", "--proxy", nowhere); r.code != 69 || !strings.Contains(r.stderr, nowhere) {
		t.Errorf("%+v", r)
	}
	p := rig.StartProxy(t, "--dev", "--requirepass", "secret")
	locks(t, p, 77)
	locks(t, p, 77, "--watch", "--pass", "wrong")
	locks(t, p, 0, "--pass", "secret")
	redis := rig.SharedRedis()
	if r := run(t, "locks", "--proxy", redis.Addr); r.code != 76 {
		t.Errorf("a Redis is no lockproxy: %+v", r)
	}
}
