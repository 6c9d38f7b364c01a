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

// screen is a shell at a terminal, as a person has it.
type screen struct {
	keys *os.File

	mu   sync.Mutex
	text strings.Builder
}

// openScreen starts a shell at a terminal of its own. $lockproxy is the program, and the prompt is "$ ".
func openScreen(t *testing.T, proxy string, shell ...string) *screen {
	t.Helper()
	keys, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(keys.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(keys.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	tty, err := os.OpenFile(fmt.Sprint("/dev/pts/", n), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(shell[0], shell[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = tty, tty, tty
	cmd.Env = append(os.Environ(), "PS1=$ ", "TERM=dumb", "LOCKPROXY_PROXY="+proxy,
		"lockproxy="+rig.Binary(t))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	tty.Close()
	s := &screen{keys: keys}
	done := make(chan struct{})
	go func() { // ends with the terminal
		defer close(done)
		for buf := make([]byte, 4096); ; {
			n, err := keys.Read(buf)
			if err != nil {
				return
			}
			s.mu.Lock()
			s.text.Write(buf[:n])
			s.mu.Unlock()
		}
	}()
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
		keys.Close() // hangs up whatever is left there
		<-done
		if t.Failed() {
			t.Logf("the screen:\n%s\n%q", s.text.String(), s.text.String())
		}
	})
	return s
}

// types types keys and waits until what follows on the screen has text.
func (s *screen) types(t *testing.T, keys, text string) {
	t.Helper()
	s.mu.Lock()
	from := s.text.Len()
	s.mu.Unlock()
	s.keys.WriteString(keys)
	rig.Eventually(t, rig.Patience, fmt.Sprintf("%q after %q", text, keys), func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return strings.Contains(overwritten(s.text.String()[from:]), text)
	})
}

// idle waits until the shell waits for a line.
func (s *screen) idle(t *testing.T) {
	t.Helper()
	rig.Eventually(t, rig.Patience, "a prompt", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return strings.HasSuffix(s.text.String(), "$ ")
	})
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

// The command has the keyboard, ends with ^C, and can be stopped, seen in the background and continued, as if
// there were no lockproxy lock before it.
func TestLockAtATerminal(t *testing.T) {
	t.Parallel()
	dev := rig.StartProxy(t, "--dev")
	s := openScreen(t, dev.Addr, "bash", "--norc", "--noprofile", "--noediting", "-i")
	c := rig.Connect(t, dev.Addr)
	free := func(want bool) {
		t.Helper()
		if is := c.Must(t, "LOCKCTL", "INFO", "job").Field("state").Text == "free"; is != want {
			t.Errorf("the lock is free: %v", is)
		}
	}

	// It reads what is typed, and changes the modes of the terminal.
	s.types(t, `"$lockproxy" lock job -- sh -c 'stty -echo; echo one$((1+1)); read x; stty echo; `+
		`echo "got <$x>"'`+"\n", "one2")
	s.types(t, "some words\n", "got <some words>")
	s.idle(t)
	s.types(t, "echo code=$?\n", "code=0")
	s.idle(t)
	free(true)

	// ^C is for the command, whether or not it has asked for the terminal before.
	s.types(t, `"$lockproxy" lock job -- sh -c 'trap "echo int$((1+1)); exit 9" INT; echo up$((1+1)); `+
		`while :; do sleep 0.02; done'`+"\n", "up2")
	s.types(t, "\x03", "int2")
	s.idle(t)
	s.types(t, "echo code=$?\n", "code=9")
	s.idle(t)
	s.types(t, `"$lockproxy" lock job -- cat`+"\nfirst line\n", "first line\r\nfirst line")
	free(false)
	s.types(t, "\x03", "^C")
	s.idle(t)
	s.types(t, "echo code=$?\n", "code=130")
	s.idle(t)
	free(true)

	// ^Z stops it, with the lock; fg goes on.
	s.types(t, `"$lockproxy" lock job -- cat`+"\nfirst line\n", "first line\r\nfirst line")
	s.types(t, "\x1a", "Stopped")
	s.idle(t)
	free(false)
	s.types(t, "echo shell$((1+1))\n", "shell2")
	s.idle(t)
	s.types(t, "fg\n", "lock job -- cat")
	s.types(t, "second line\n", "second line\r\nsecond line")
	s.types(t, "\x1a", "Stopped")
	s.idle(t)
	s.types(t, "bg\n", "&")
	s.types(t, "wait %1; echo stopped$((1+1))\n", "stopped2") // for in the background cat may not read
	free(false)
	s.types(t, "fg\n", "lock job -- cat")
	s.types(t, "third\n", "third\r\nthird")
	s.types(t, "\x04", "$ ")
	s.idle(t)
	s.types(t, "echo code=$?\n", "code=0")
	s.idle(t)
	free(true)

	// Others of a pipeline have the terminal, if the command does not ask for it.
	s.types(t, `"$lockproxy" lock job -- echo piped$((1+1)) | (cat; read x </dev/tty; echo "got <$x>")`+"\n",
		"piped2")
	s.types(t, "more words\n", "got <more words>")
	free(true)
}
