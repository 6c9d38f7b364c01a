package integration

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
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

// process is a program that runs beside the test.
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed once it has ended and been waited for
	err  error         // of Wait, valid after done
	log  *logBuffer    // what it wrote to stdout and stderr
}

// startProcess starts name; the process is killed at the latest when l ends.
func startProcess(l life, name string, args ...string) *process {
	l.Helper()
	return startCommand(l, exec.Command(name, args...))
}

func startCommand(l life, cmd *exec.Cmd) *process {
	l.Helper()
	p := &process{cmd: cmd, done: make(chan struct{}), log: newLogBuffer()}
	cmd.Stdout, cmd.Stderr = p.log, p.log
	// A group of its own keeps the terminal's ^C from it: the keeper ends it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		l.Fatalf("start %s: %v", cmd.Path, err)
	}
	tellKeeper("+", cmd.Process.Pid)
	go func() {
		p.err = cmd.Wait()
		tellKeeper("-", cmd.Process.Pid)
		close(p.done)
	}()
	l.Cleanup(p.kill)
	return p
}

func (p *process) pid() int { return p.cmd.Process.Pid }

// signal sends sig if the process still runs.
func (p *process) signal(sig syscall.Signal) {
	if !p.ended() {
		p.cmd.Process.Signal(sig)
	}
}

// kill ends the process at once (kill -9) and waits for it.
func (p *process) kill() {
	p.signal(syscall.SIGKILL)
	<-p.done
}

func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// wait waits for the end of the process and returns its exit code, -1 if it did
// not end within d or was ended by a signal.
func (p *process) wait(d time.Duration) int {
	select {
	case <-p.done:
		return p.cmd.ProcessState.ExitCode()
	case <-time.After(d):
		return -1
	}
}

// rss is the resident memory of the process in bytes.
func (p *process) rss(l life) int64 {
	l.Helper()
	out, err := exec.Command("ps", "-o", "rss=", "-p", strconv.Itoa(p.pid())).Output()
	if err != nil {
		l.Fatalf("ps of process %d: %v", p.pid(), err)
	}
	kib, err := strconv.ParseInt(strings.TrimSpace(string(out)), 10, 64)
	if err != nil {
		l.Fatalf("ps of process %d: %v", p.pid(), err)
	}
	return kib << 10
}

// cpu is the CPU time the process has used so far.
func (p *process) cpu(l life) time.Duration {
	l.Helper()
	out, err := exec.Command("ps", "-o", "time=", "-p", strconv.Itoa(p.pid())).Output()
	if err != nil {
		l.Fatalf("ps of process %d: %v", p.pid(), err)
	}
	var sum time.Duration
	days, clock, found := strings.Cut(strings.TrimSpace(string(out)), "-")
	if !found {
		days, clock = "0", days
	}
	if n, err := strconv.Atoi(days); err == nil {
		sum = time.Duration(n) * 24 * time.Hour
	}
	var seconds time.Duration
	for _, part := range strings.Split(clock, ":") {
		f, _ := strconv.ParseFloat(part, 64)
		seconds = seconds*60 + time.Duration(f*float64(time.Second))
	}
	return sum + seconds
}

// logBuffer collects what a process writes; readers can wait for a text.
type logBuffer struct {
	mu   sync.Mutex
	cond *sync.Cond
	buf  bytes.Buffer
}

func newLogBuffer() *logBuffer {
	b := &logBuffer{}
	b.cond = sync.NewCond(&b.mu)
	return b
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.cond.Broadcast()
	return b.buf.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// tail is the end of the log, for failures.
func (b *logBuffer) tail() string {
	s := b.String()
	if len(s) > 4000 {
		s = "..." + s[len(s)-4000:]
	}
	if s == "" {
		s = "(its log is empty)"
	}
	return s
}

// eventually waits until ok returns true; what says what was waited for.
func eventually(l life, within time.Duration, what string, ok func() bool) {
	l.Helper()
	end := time.Now().Add(within)
	for pause := 2 * time.Millisecond; !ok(); pause = min(2*pause, 50*time.Millisecond) {
		if time.Now().After(end) {
			l.Fatalf("not within %v: %s", within, what)
		}
		time.Sleep(pause)
	}
}

// writeFile writes a file for a test into a directory of its own and returns
// its path.
func writeFile(l life, name, content string) string {
	l.Helper()
	path := l.TempDir() + "/" + name
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		l.Fatalf("%v", err)
	}
	return path
}
