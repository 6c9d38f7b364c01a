package tool

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"lockproxy/integration/rig"
)

// The exit code is that of the command, or says why it has not run.
func TestLockExitCodes(t *testing.T) {
	t.Parallel()
	dev := rig.StartProxy(t, "--dev")
	secret := rig.StartProxy(t, "--dev", "--requirepass", "sesame")
	nowhere := fmt.Sprintf("127.0.0.1:%d", rig.FreePort(t))
	file := rig.WriteFile(t, "file", "") // which is no program
	holder := rig.Connect(t, dev.Addr)
	holder.Must(t, "LOCK", "held", "PX", "600000")
	holder.Must(t, "SEMLOCK", "two", "PERMITS", "2", "PX", "600000")
	holder.Must(t, "SEMLOCK", "one", "PERMITS", "1", "PX", "600000")
	holder.Must(t, "RLOCK", "read", "PX", "600000")
	for i, test := range []struct {
		proxy, words string
		code         int
		says         string
	}{
		{dev.Addr, "job -- sh -c true", 0, ""},
		{dev.Addr, "job -- sh -c exit_3", 3, ""},
		{dev.Addr, "job -- sh -c kill_-KILL_$$", 128 + 9, ""},
		{dev.Addr, "job -- echo --wait", 0, "--wait\n"},
		{dev.Addr, "--shared read -- echo ran", 0, "ran\n"},
		{dev.Addr, "--permits 2 two -- echo ran", 0, "ran\n"},
		{dev.Addr, "--proxy " + nowhere + " job -- echo ran", 69, "refused"},
		{dev.Addr, "--proxy " + rig.SharedRedis().Addr + " job -- echo ran", 76,
			"a Redis or Valkey: it does not know LOCK\n"},
		{secret.Addr, "job -- echo ran", 77, "NOAUTH"},
		{secret.Addr, "--pass wrong job -- echo ran", 77, "WRONGPASS"},
		{secret.Addr, "--pass sesame job -- echo ran", 0, "ran\n"},
		{dev.Addr, "held -- echo ran", 75, "held: somebody else holds the lock"},
		{dev.Addr, "--wait 50ms held -- echo ran", 75, "held: somebody else holds the lock"},
		{dev.Addr, "--once held -- echo ran", 0, ""},
		{dev.Addr, "read -- echo ran", 75, "somebody else"},
		{dev.Addr, "--permits 1 one -- echo ran", 75, "somebody else"},
		{dev.Addr, "two -- echo ran", 65, "LOCKTYPE"},
		{dev.Addr, "--permits 3 two -- echo ran", 65, "PERMITS 2"},
		{dev.Addr, "--lease 8760h job -- echo ran", 70, "lock-max-lease"},
		{dev.Addr, "job -- no-such-command", 127, "no-such-command"},
		{dev.Addr, "job -- ./no/such/command", 127, "no/such/command"},
		{dev.Addr, "job -- FILE", 126, "permission denied"},
		{dev.Addr, "job", 64, "the command is missing"},
		{dev.Addr, "job echo ran", 64, "write -- before the command"},
		{dev.Addr, "--once --wait 1s job -- echo ran", 64, "exclude each other"},
		{dev.Addr, "--grace 20s job -- echo ran", 64, "--grace must be at most a third"},
		{dev.Addr, "--wait 5m -- echo ran", 64, "NAME is missing"},
		{dev.Addr, "--wiat 5m job -- echo ran", 64, "did you mean --wait?"},
		{"nowhere", "job -- echo ran", 64, "host:port"},
		{"redis://x:sesame@" + dev.Addr, "job -- echo ran", 64, "a URL is neither"},
		{strings.TrimPrefix(dev.Admin, "http://"), "job -- echo ran", 76, "speaks HTTP"},
		{dev.Addr, "--tls job -- echo ran", 76, "without --tls?"},
	} {
		t.Run(test.words, func(t *testing.T) {
			t.Parallel()
			words := []string{"lock"}
			for _, word := range strings.Fields(test.words) {
				if word == "job" {
					word = fmt.Sprint("job", i) // they run beside each other
				}
				words = append(words, strings.NewReplacer("_", " ", "FILE", file).Replace(word))
			}
			code, said := told(t, test.proxy, words...)
			if code != test.code || !strings.Contains(said, test.says) || test.says == "" && said != "" {
				t.Errorf("code %d, not %d: %s", code, test.code, said)
			}
			if strings.Contains(said, "ran\n") != (test.says == "ran\n") {
				t.Errorf("it has run, or not: %s", said)
			}
		})
	}
}

// The command has the token of its lock and no login, unless it is wanted. A name that somebody else has
// chosen does nothing to the terminal in which the lock is refused.
func TestLockTellsNoPassword(t *testing.T) {
	t.Parallel()
	proxy := rig.StartProxy(t, "--dev", "--requirepass", "sesame")
	for _, test := range []struct {
		words      []string
		has, hasNo string
	}{
		{[]string{"job", "--", "env"}, "LOCKPROXY_TOKEN=", "sesame"},
		{[]string{"--pass-env", "job", "--", "env"}, "LOCKPROXY_PASS=sesame\n", "\x00"},
		{[]string{"--pass-env", "job", "--", "env"}, "REDISCLI_AUTH=sesame\n", "\x00"},
		{[]string{"--lease", "8760h", "evil\x1b]0;own\a\r\nline", "--", "env"}, `evil\x1b]0;own\a\r\nline: `,
			"\x1b"},
	} {
		cmd := exec.Command(rig.Binary(t), append([]string{"lock"}, test.words...)...)
		cmd.Env = append(os.Environ(), "LOCKPROXY_PROXY="+proxy.Addr, "LOCKPROXY_PASS=sesame",
			"REDISCLI_AUTH=sesame")
		p := rig.StartCommand(t, cmd)
		p.Wait(rig.Patience)
		if said := p.Log.String(); !strings.Contains(said, test.has) || strings.Contains(said, test.hasNo) {
			t.Errorf("%q: %q", test.words, said)
		}
	}
}

// The command holds the lock while it runs, and has its token and fence; afterwards the lock is free. R8 R18
func TestLockIsHeldByTheCommand(t *testing.T) {
	t.Parallel()
	dev := rig.StartProxy(t, "--dev")
	c := rig.Connect(t, dev.Addr)
	p := start(t, dev.Addr, "lock", "--meta", "the night shift", "job", "--", "sh", "-c",
		`trap 'exit 0' USR1; echo "$LOCKPROXY_TOKEN $LOCKPROXY_FENCE;"; while :; do sleep 0.02; done`)
	says(t, p, ";")
	token, fence, _ := strings.Cut(strings.TrimSuffix(strings.TrimSpace(p.Log.String()), ";"), " ")
	v := c.Must(t, "LOCKCTL", "CHECK", "job", token)
	if len(v.Elems) != 3 || v.Elems[1].Text != fence {
		t.Errorf("token %s, fence %s: %s", token, fence, v)
	}
	if v := fmt.Sprint(c.Must(t, "LOCKCTL", "INFO", "job")); !strings.Contains(v, "the night shift") {
		t.Errorf("LOCKCTL INFO: %s", v)
	}
	c.Want(t, "(nil)", "LOCK", "job")
	p.Signal(syscall.SIGUSR1)
	if code := p.Wait(rig.Patience); code != 0 {
		t.Errorf("code %d: %s", code, p.Log.Tail())
	}
	if len(c.Must(t, "LOCK", "job").Elems) != 4 {
		t.Error("the lock is not free")
	}
	// A proxy below the command is not confused by these variables.
	if code, said := told(t, dev.Addr, "lock", "other", "--", rig.Binary(t), "--version"); code != 0 {
		t.Errorf("code %d: %s", code, said)
	}
}

// Whoever waits runs once the lock is free, in order. R9 R25
func TestLockWaits(t *testing.T) {
	t.Parallel()
	dev := rig.StartProxy(t, "--dev")
	c := rig.Connect(t, dev.Addr)
	c.Must(t, "LOCK", "job", "TOKEN", "t", "PX", "600000")
	var all []*rig.Process
	for i := range 3 {
		p := start(t, dev.Addr, "lock", "--wait", "5m", "job", "--", "redis-cli", "-u", "redis://"+dev.Addr,
			"RPUSH", "order", fmt.Sprint(i))
		all = append(all, p)
		rig.Eventually(t, rig.Patience, "it waits", func() bool {
			return c.Must(t, "LOCKCTL", "INFO", "job").Field("waiters").Int() == int64(i+1)
		})
	}
	given := start(t, dev.Addr, "lock", "--wait", "5m", "job", "--", "echo", "ran")
	rig.Eventually(t, rig.Patience, "it waits", func() bool {
		return c.Must(t, "LOCKCTL", "INFO", "job").Field("waiters").Int() == 4
	})
	given.Signal(syscall.SIGTERM)
	if code := given.Wait(rig.Patience); code != 128+15 || strings.Contains(given.Log.String(), "ran") {
		t.Errorf("a waiter that gets TERM: code %d, %s", code, given.Log.Tail())
	}
	c.Want(t, "(integer) 1", "UNLOCK", "job", "t")
	for _, p := range all {
		if code := p.Wait(rig.Patience); code != 0 {
			t.Errorf("code %d: %s", code, p.Log.Tail())
		}
	}
	c.Want(t, `["0", "1", "2"]`, "LRANGE", "order", "0", "-1")
	rig.Eventually(t, rig.Patience, "the lock is free", func() bool {
		return len(c.Must(t, "LOCK", "job").Elems) == 4
	})
}

// One run an interval, however many hosts start it. R23
func TestLockOnce(t *testing.T) {
	t.Parallel()
	dev := rig.StartProxy(t, "--dev")
	ran := 0
	for range 3 {
		code, said := told(t, dev.Addr, "lock", "--once", "--atleast", "10m", "import", "--", "echo", "ran")
		if code != 0 {
			t.Errorf("code %d: %s", code, said)
		}
		ran += strings.Count(said, "ran")
	}
	if ran != 1 {
		t.Errorf("%d runs", ran)
	}
	// Of so many permits, as many run.
	for ran = 0; ran < 2; ran++ {
		code, said := told(t, dev.Addr, "lock", "--permits", "2", "--atleast", "10m", "pool", "--",
			"echo", "ran")
		if code != 0 || !strings.Contains(said, "ran") {
			t.Errorf("code %d: %s", code, said)
		}
	}
	if code, said := told(t, dev.Addr, "lock", "--permits", "2", "pool", "--", "echo", "ran"); code != 75 {
		t.Errorf("code %d: %s", code, said)
	}
}

// Signals go to the command, and its answer is the exit code.
func TestLockPassesSignalsOn(t *testing.T) {
	t.Parallel()
	dev := rig.StartProxy(t, "--dev")
	p := start(t, dev.Addr, "lock", "job", "--", "sh", "-c",
		`trap 'echo hup' HUP; trap 'echo usr1' USR1; trap 'echo term; exit 7' TERM; echo ready
		while :; do sleep 0.05; done`)
	says(t, p, "ready")
	p.Signal(syscall.SIGHUP)
	says(t, p, "hup")
	p.Signal(syscall.SIGUSR1)
	says(t, p, "usr1")
	p.Signal(syscall.SIGTERM)
	if code := p.Wait(rig.Patience); code != 7 {
		t.Errorf("code %d: %s", code, p.Log.Tail())
	}
	p = start(t, dev.Addr, "lock", "job", "--", "sleep", "1000")
	rig.Eventually(t, rig.Patience, "the lock is taken", func() bool {
		return rig.Connect(t, dev.Addr).Must(t, "LOCKCTL", "INFO", "job").Field("state").Text == "write"
	})
	p.Signal(syscall.SIGINT)
	if code := p.Wait(rig.Patience); code != 128+2 {
		t.Errorf("code %d: %s", code, p.Log.Tail())
	}
}

// A Redis in place of a proxy is told from one, and nothing of what was sent there is repeated.
func TestARedisIsNoProxy(t *testing.T) {
	t.Parallel()
	redis := rig.SharedRedis().Addr
	want := "no lockproxy answers at " + redis + ", but a Redis or Valkey: "
	for _, line := range []string{"lock job -- true", "locks", "locks info job", "bench --time 1s"} {
		code, said := told(t, redis, strings.Fields(line)...)
		if code != 76 || !strings.Contains(said, want) || strings.Contains(said, "args") ||
			strings.Contains(said, "TOKEN") {
			t.Errorf("%s: code %d: %s", line, code, said)
		}
	}
}
