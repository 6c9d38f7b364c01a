package checkup

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"lockproxy/integration/rig"
)

// screen is a terminal with lockproxy in it.
type screen struct {
	master *os.File
	cmd    *exec.Cmd
	over   chan struct{}

	mu   sync.Mutex
	seen strings.Builder
}

// onScreen runs lockproxy with args in a terminal of its own, of 80 columns and 24 rows.
func onScreen(t *testing.T, args ...string) *screen {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { master.Close() })
	fd := int(master.Fd())
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 80}); err != nil {
		t.Fatal(err)
	}
	slave, err := os.OpenFile("/dev/pts/"+strconv.Itoa(n), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer slave.Close()
	s := &screen{master: master, cmd: exec.Command(rig.Binary(t), args...), over: make(chan struct{})}
	s.cmd.Stdin, s.cmd.Stdout, s.cmd.Stderr = slave, slave, slave
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	s.cmd.Env = append(os.Environ(), "TERM=xterm")
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.cmd.Process.Kill(); <-s.over })
	go func() { // ends with the program
		for b := make([]byte, 4096); ; {
			n, err := master.Read(b)
			if err != nil {
				break
			}
			s.mu.Lock()
			s.seen.Write(b[:n])
			s.mu.Unlock()
		}
		s.cmd.Wait()
		close(s.over)
	}()
	return s
}

// text is all that was shown.
func (s *screen) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seen.String()
}

// shows waits until text is shown.
func (s *screen) shows(t *testing.T, text string) {
	t.Helper()
	rig.Eventually(t, rig.Patience, "the terminal shows "+strconv.Quote(text), func() bool {
		return strings.Contains(s.text(), text)
	})
}

// types types keys.
func (s *screen) types(t *testing.T, keys string) {
	t.Helper()
	if _, err := s.master.WriteString(keys); err != nil {
		t.Fatal(err)
	}
}

// ends waits for the end with that exit code.
func (s *screen) ends(t *testing.T, code int) {
	t.Helper()
	rig.Eventually(t, rig.Patience, "the program ends", func() bool {
		select {
		case <-s.over:
			return true
		default:
			return false
		}
	})
	if got := s.cmd.ProcessState.ExitCode(); got != code {
		t.Errorf("exit code %d, want %d\n%q", got, code, s.text())
	}
}

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
	watch.types(t, "\x03")
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
	no.types(t, "\n")
	no.ends(t, 1)
	if v := ask(t, p, "LOCKCTL", "CHECK", "job", "mine"); len(v.Elems) != 3 {
		t.Errorf("broken without a yes: %s", v.Raw)
	}
	yes := onScreen(t, "locks", "break", "job", "--proxy", p.Addr)
	yes.shows(t, "Break it? [y/N]")
	yes.types(t, "y\n")
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
	s := onScreen(t, "bench", "--proxy", p.Addr, "--time", "3s", "--clients", "3")
	s.shows(t, "lock: each client takes and frees locks of its own")
	s.shows(t, " a second")
	s.shows(t, "hand-over")
	s.ends(t, 0)
	if !strings.Contains(s.text(), "█") {
		t.Errorf("no bars: %q", s.text())
	}
}

// Whoever starts --dev at a terminal is told what to type next, and how to end it.
func TestDevOnATerminal(t *testing.T) {
	t.Parallel()
	dev := onScreen(t, "--dev", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0")
	dev.shows(t, " LOCK job TOKEN me PX 60000\r\n")
	dev.shows(t, "http://127.0.0.1:")
	dev.shows(t, "Ctrl-C, or SIGTERM\r\n")
	dev.types(t, "\x03")
	dev.ends(t, 0)
}
