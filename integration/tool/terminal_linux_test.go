package tool

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"lockproxy/integration/rig"
)

// screen is a terminal of 80 columns and 24 rows with a program in it.
type screen struct {
	keys *os.File
	cmd  *exec.Cmd
	over chan struct{}

	mu   sync.Mutex
	seen strings.Builder
}

// openTerminal makes a terminal: keys is where a person sits, and tty where programs are.
func openTerminal(t *testing.T) (keys, tty *os.File) {
	t.Helper()
	keys, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { keys.Close() }) // hangs up whatever is left there
	raw, err := keys.SyscallConn()     // Fd would make a Read that nothing ends
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	raw.Control(func(fd uintptr) {
		if n, err = unix.IoctlGetInt(int(fd), unix.TIOCGPTN); err == nil {
			err = unix.IoctlSetPointerInt(int(fd), unix.TIOCSPTLCK, 0)
		}
		if err == nil {
			err = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 80})
		}
	})
	if err == nil {
		tty, err = os.OpenFile(fmt.Sprint("/dev/pts/", n), os.O_RDWR|syscall.O_NOCTTY, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	return keys, tty
}

// show starts a program at a terminal of its own.
func show(t *testing.T, cmd *exec.Cmd) *screen {
	t.Helper()
	keys, tty := openTerminal(t)
	defer tty.Close()
	s := &screen{keys: keys, cmd: cmd, over: make(chan struct{})}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = tty, tty, tty
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { // ends with the terminal
		defer close(s.over)
		defer cmd.Wait()
		for buf := make([]byte, 4096); ; {
			n, err := keys.Read(buf)
			if err != nil {
				return
			}
			s.mu.Lock()
			s.seen.Write(buf[:n])
			s.mu.Unlock()
		}
	}()
	t.Cleanup(func() {
		cmd.Process.Kill()
		keys.Close()
		<-s.over
		if t.Failed() {
			t.Logf("the screen:\n%s\n%q", s.text(), s.text())
		}
	})
	return s
}

// onScreen runs lockproxy at a terminal.
func onScreen(t *testing.T, words ...string) *screen {
	t.Helper()
	cmd := exec.Command(rig.Binary(t), words...)
	cmd.Env = append(os.Environ(), "TERM=xterm")
	return show(t, cmd)
}

// openScreen starts a shell at a terminal, as a person has it. $lockproxy is the program, and the prompt is
// "$ ". Nothing there is of the user who runs the tests.
func openScreen(t *testing.T, proxy string, shell ...string) *screen {
	t.Helper()
	cmd := exec.Command(shell[0], shell[1:]...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "TERM=dumb", "PS1=$ ",
		"LOCKPROXY_PROXY=" + proxy, "lockproxy=" + rig.Binary(t), "LOCKPROXY_CONNECT_TIMEOUT=" + patience}
	return show(t, cmd)
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
	rig.Eventually(t, rig.Patience, fmt.Sprintf("the terminal shows %q", text), func() bool {
		return strings.Contains(s.text(), text)
	})
}

// press presses keys.
func (s *screen) press(t *testing.T, keys string) {
	t.Helper()
	if _, err := s.keys.WriteString(keys); err != nil {
		t.Fatal(err)
	}
}

// types presses keys and waits until what follows on the screen has text.
func (s *screen) types(t *testing.T, keys, text string) {
	t.Helper()
	from := len(s.text())
	s.press(t, keys)
	rig.Eventually(t, rig.Patience, fmt.Sprintf("%q after %q", text, keys), func() bool {
		return strings.Contains(overwritten(s.text()[from:]), text)
	})
}

// idle waits until the shell waits for a line.
func (s *screen) idle(t *testing.T) {
	t.Helper()
	rig.Eventually(t, rig.Patience, "a prompt", func() bool { return strings.HasSuffix(s.text(), "$ ") })
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
		t.Errorf("exit code %d, want %d", got, code)
	}
}

// overwritten is text as one sees it: without bells, and a letter behind a backspace in place of another.
func overwritten(text string) string {
	var seen []byte
	for _, c := range []byte(text) {
		switch {
		case c == '\a':
		case c == '\b' && len(seen) > 0:
			seen = seen[:len(seen)-1]
		default:
			seen = append(seen, c)
		}
	}
	return string(seen)
}
