package faults

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"lockproxy/integration/rig"
)

// The password of clients comes from a file. Another one there is asked of those who log in from then on, and
// a file that gives none opens nothing.
func TestClientPasswordFromAFile(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "secret")
	say := func(text string) {
		t.Helper()
		if err := os.WriteFile(file+".new", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(file+".new", file); err != nil {
			t.Fatal(err)
		}
	}
	say("sesame-one\n")
	p := rig.StartProxy(t, "--upstream", rig.StartRedis(t).Addr, "--requirepass-file", file)
	refused := func(password ...string) {
		t.Helper()
		c := rig.Connect(t, p.Addr)
		if len(password) > 0 {
			if v := c.Call(t, "AUTH", password[0]); !v.IsError("WRONGPASS") {
				t.Errorf("AUTH %s: %v", password[0], v)
			}
		}
		if v := c.Call(t, "GET", "k"); !v.IsError("NOAUTH") {
			t.Errorf("without the password: %v", v)
		}
	}
	enter := func(password string) *rig.Conn {
		t.Helper()
		c := rig.Connect(t, p.Addr)
		c.Want(t, "OK", "AUTH", password)
		return c
	}
	refused()
	refused("guess")
	early := enter("sesame-one")
	early.Want(t, `["requirepass", "(hidden)"]`, "CONFIG", "GET", "requirepass")
	if v := early.Call(t, "CONFIG", "SET", "requirepass", "x"); !v.IsError("ERR CONFIG SET failed") {
		t.Errorf("CONFIG SET requirepass: %v", v)
	}

	say("sesame-two\n")
	p.Logged(t, `msg="a new password is in use" setting=(requirepass-file)`)
	early.Want(t, "OK", "SET", "k", "1")
	refused("sesame-one")
	enter("sesame-two")

	say("")
	p.Logged(t, `(level=WARN msg="no new password.*requirepass-file has to give one line)`)
	refused()
	enter("sesame-two")
	early.Want(t, "OK", "CONFIG", "SET", "timeout", "77")
	say("sesame-two\n")
	p.Logged(t, `msg="the password can be read again" setting=(requirepass-file)`)
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	p.Logged(t, `(level=WARN msg="no new password.*no such file)`)
	p.Signal(syscall.SIGHUP)
	p.Logged(t, `msg="settings reread" (changed=1)`)
	refused()
	enter("sesame-two")
	early.Want(t, `"1"`, "GET", "k")
	if strings.Contains(p.Log.String(), "sesame") {
		t.Errorf("a password is in the log:\n%s", p.Log.String())
	}
}

// A file that gives no password keeps the proxy from starting, beside what else is wrong.
func TestClientPasswordMustBeReadAtTheStart(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "proxy.conf")
	rewrite(t, nil, path, "dev yes", "requirepass-file "+path+".none", "lock-lease 30")
	p := rig.StartProcess(t, rig.Binary(t), "--config", path)
	if code := p.Wait(rig.Patience); code != 2 {
		t.Errorf("exit code %d", code)
	}
	for _, want := range []string{"proxy.conf:2: requirepass-file ", "proxy.conf:3: lock-lease "} {
		if !strings.Contains(p.Log.String(), want) {
			t.Errorf("no %q in\n%s", want, p.Log)
		}
	}
}
