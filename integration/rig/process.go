package rig

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// keeper is a shell that ends with this process, however that ends (panic,
// time-out, kill -9), and then kills what is still running.
var keeper struct {
	sync.Mutex
	in io.WriteCloser
}

const keeperScript = `trap '' INT TERM HUP
pids=
while read -r op pid; do
	case $op in
	+) pids="$pids $pid" ;;
	-) new=; for p in $pids; do [ "$p" = "$pid" ] || new="$new $p"; done; pids=$new ;;
	esac
done
for p in $pids; do kill -9 "$p" 2>/dev/null; done
`

// startKeeper starts the keeper; stop lets it do its work and waits for it.
func startKeeper() (stop func(), err error) {
	cmd := exec.Command("sh", "-c", keeperScript)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if keeper.in, err = cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return func() { keeper.in.Close(); cmd.Wait() }, nil
}

func tellKeeper(op string, pid int) {
	keeper.Lock()
	defer keeper.Unlock()
	fmt.Fprintln(keeper.in, op, pid)
}

// Process is a program that runs beside the test.
type Process struct {
	Cmd  *exec.Cmd
	Done chan struct{} // closed once it has ended and been waited for
	Err  error         // of Wait, valid after done
	Log  *logBuffer    // what it wrote to stdout and stderr
}

// StartProcess starts name; the process is killed at the latest when l ends.
func StartProcess(l Life, name string, args ...string) *Process {
	l.Helper()
	return StartCommand(l, exec.Command(name, args...))
}

// StartCommand is StartProcess for a command that is ready to start.
func StartCommand(l Life, cmd *exec.Cmd) *Process {
	l.Helper()
	p := &Process{Cmd: cmd, Done: make(chan struct{}), Log: &logBuffer{}}
	cmd.Stdout, cmd.Stderr = p.Log, p.Log
	// A group of its own keeps the terminal's ^C from it: the keeper ends it.
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid = true
	if err := cmd.Start(); err != nil {
		l.Fatalf("start %s: %v", cmd.Path, err)
	}
	tellKeeper("+", cmd.Process.Pid)
	go func() {
		p.Err = cmd.Wait()
		tellKeeper("-", cmd.Process.Pid)
		close(p.Done)
	}()
	l.Cleanup(p.Kill)
	return p
}

func (p *Process) pid() int { return p.Cmd.Process.Pid }

// Signal sends sig if the process still runs.
func (p *Process) Signal(sig syscall.Signal) {
	if !p.Ended() {
		p.Cmd.Process.Signal(sig)
	}
}

// Stop stops the process (SIGSTOP), and returns when it stands still: a busy machine takes its time for that.
func (p *Process) Stop(l Life) {
	l.Helper()
	p.Signal(syscall.SIGSTOP)
	Eventually(l, Patience, "the process is stopped", func() bool {
		state, _ := exec.Command("ps", "-o", "stat=", "-p", strconv.Itoa(p.pid())).Output()
		return strings.HasPrefix(string(state), "T")
	})
}

// Kill ends the process at once (kill -9) and waits for it.
func (p *Process) Kill() {
	p.Signal(syscall.SIGKILL)
	<-p.Done
}

// Ended says whether the process has ended.
func (p *Process) Ended() bool {
	select {
	case <-p.Done:
		return true
	default:
		return false
	}
}

// Wait waits for the end of the process and returns its exit code, -1 if it did
// not end within d or was ended by a signal.
func (p *Process) Wait(d time.Duration) int {
	select {
	case <-p.Done:
		return p.Cmd.ProcessState.ExitCode()
	case <-time.After(d):
		return -1
	}
}

// RSS is the resident memory of the process in bytes.
func (p *Process) RSS(l Life) int64 {
	l.Helper()
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.pid()))
	_, number, found := strings.Cut(string(text), "VmRSS:")
	if !found {
		number = p.ps(l, "rss=")
	}
	var kib int64
	if _, err := fmt.Sscan(number, &kib); err != nil {
		l.Fatalf("memory of process %d: %v", p.pid(), err)
	}
	return kib << 10
}

// CPU is the CPU time that the process has used so far, all its threads: by the kernel's clock of the process
// (clock_getcpuclockid(3)), which counts in nanoseconds, or where there is none by ps, to a hundredth of a
// second.
func (p *Process) CPU(l Life) (used time.Duration) {
	l.Helper()
	var t unix.Timespec
	if runtime.GOOS == "linux" && unix.ClockGettime(int32(^p.pid()<<3|2), &t) == nil {
		return time.Duration(t.Nano())
	}
	for part := range strings.SplitSeq(p.ps(l, "time="), ":") {
		f, err := strconv.ParseFloat(part, 64)
		if err != nil {
			l.Fatalf("CPU time of process %d: %v", p.pid(), err)
		}
		used = used*60 + time.Duration(f*float64(time.Second))
	}
	return used
}

// ps is what ps says of the process.
func (p *Process) ps(l Life, what string) string {
	l.Helper()
	out, err := exec.Command("ps", "-o", what, "-p", strconv.Itoa(p.pid())).Output()
	if err != nil {
		l.Fatalf("ps of process %d: %v", p.pid(), err)
	}
	return strings.TrimSpace(string(out))
}

// logBuffer collects what a process writes; readers can wait for a text.
type logBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// Tail is the end of the log, for failures.
func (b *logBuffer) Tail() string {
	s := b.String()
	if len(s) > 4000 {
		s = "..." + s[len(s)-4000:]
	}
	if s == "" {
		s = "(its log is empty)"
	}
	return s
}

// Await waits until ok returns true, and fails as soon as the process has ended before; what says what was
// waited for.
func (p *Process) Await(l Life, what string, ok func() bool) {
	l.Helper()
	done := false
	until(Patience, func() bool {
		ended := p.Ended()
		done = ok()
		return done || ended
	})
	if !done {
		l.Fatalf("%s, process %d: not %s\n%s", p.Cmd.Path, p.pid(), what, p.Log.Tail())
	}
}

// Eventually waits until ok returns true; what says what was waited for.
func Eventually(l Life, within time.Duration, what string, ok func() bool) {
	l.Helper()
	if !until(within, ok) {
		l.Fatalf("not within %v: %s", within, what)
	}
}

func until(within time.Duration, ok func() bool) bool {
	begun := time.Now()
	for pause := 2 * time.Millisecond; !ok(); time.Sleep(pause) {
		waited := time.Since(begun)
		if waited > within {
			return false
		}
		// Metrics and INFO cost a proxy under the race detector much, so what takes long is asked for less
		// often.
		pause = min(2*pause, max(50*time.Millisecond, waited/20), 500*time.Millisecond)
	}
	return true
}

// Pause waits, unless ctx ends before.
func Pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// WriteFile writes a file for a test into a directory of its own and returns
// its path.
func WriteFile(l Life, name, content string) string {
	l.Helper()
	path := l.TempDir() + "/" + name
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		l.Fatalf("%v", err)
	}
	return path
}
