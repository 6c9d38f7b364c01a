package tool

import (
	"strings"
	"testing"

	"lockproxy/integration/rig"
)

func TestLocksOnATerminal(t *testing.T) {
	t.Parallel()
	p := rig.StartProxy(t, "--dev")
	ask(t, p, "LOCK", "job\x1b[2J", "TOKEN", "mine")
	watch := onScreen(t, "locks", "--proxy", p.Addr, "--watch", "--every", "100ms")
	watch.shows(t, `job\x1b[2J`)
	watch.shows(t, "Ctrl-C ends")
	ask(t, p, "LOCK", "another")
	watch.shows(t, "another")
	p.Kill()
	watch.shows(t, "these are old: ")
	watch.press(t, "\x03")
	watch.ends(t, 0)
	if text := watch.text(); !strings.HasPrefix(text, "\x1b[?1049h") || !strings.HasSuffix(text,
		"\x1b[?1049l") {
		t.Errorf("the terminal is not left as it was: %q", text)
	}
}

// Nobody takes a lock away from others by a slip.
func TestBreakAsks(t *testing.T) {
	t.Parallel()
	p := rig.StartProxy(t, "--dev")
	ask(t, p, "LOCK", "job", "META", "nightly\x1b]0;x\a", "TOKEN", "mine")
	no := onScreen(t, "locks", "break", "job", "--proxy", p.Addr)
	no.shows(t, "Break it? [y/N]")
	no.shows(t, `meta nightly\x1b]0;x\a`)
	no.press(t, "\n")
	no.ends(t, 1)
	if v := ask(t, p, "LOCKCTL", "CHECK", "job", "mine"); len(v.Elems) != 3 {
		t.Errorf("broken without a yes: %s", v.Raw)
	}
	yes := onScreen(t, "locks", "break", "job", "--proxy", p.Addr)
	yes.shows(t, "Break it? [y/N]")
	yes.press(t, "y\n")
	yes.shows(t, "job is broken")
	yes.ends(t, 0)
	if v := ask(t, p, "LOCKCTL", "CHECK", "job", "mine"); len(v.Elems) > 0 {
		t.Errorf("not broken: %s", v.Raw)
	}
	none := onScreen(t, "locks", "break", "job", "--proxy", p.Addr)
	none.shows(t, "job is free")
	none.ends(t, 1)
}

func TestCheckOnATerminal(t *testing.T) {
	t.Parallel()
	s := onScreen(t, "check", "--dev")
	s.shows(t, "\x1b[32m✓\x1b[0m settings    are right")
	s.ends(t, 0)
}

func TestBenchOnATerminal(t *testing.T) {
	t.Parallel()
	p := rig.StartProxy(t, "--dev")
	s := onScreen(t, "bench", "--proxy", p.Addr, "--only", "contend", "--time", "1h", "--clients", "3")
	s.shows(t, "contend: all clients want one lock")
	s.press(t, "\x03")
	s.ends(t, 130)
	for _, part := range []string{"hand-over", "interrupted: the last phase"} {
		if !strings.Contains(s.text(), part) {
			t.Errorf("%q is not shown", part)
		}
	}
}

// Whoever starts --dev at a terminal is told what to type next, and how to end it.
func TestDevOnATerminal(t *testing.T) {
	t.Parallel()
	dev := onScreen(t, "--dev", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0")
	dev.shows(t, " LOCK job TOKEN me PX 60000\r\n")
	dev.shows(t, "http://127.0.0.1:")
	dev.shows(t, "Ctrl-C, or SIGTERM\r\n")
	dev.press(t, "\x03")
	dev.ends(t, 0)
}
