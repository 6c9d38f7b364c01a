package main

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

// patience is how long a server may take to start or to end.
const patience = 15 * time.Second

// process is a server that this program started and ends.
type process struct {
	cmd  *exec.Cmd
	log  *logBuffer    // what it writes
	done chan struct{} // closed once it has ended
}

// start starts a program in a process group of its own, so that ^C at the
// terminal reaches only this program, which then ends it.
func start(name string, args ...string) (*process, error) {
	p := &process{cmd: exec.Command(name, args...), log: &logBuffer{}, done: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = p.log, p.log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		p.cmd.Wait()
		close(p.done)
	}()
	return p, nil
}

func (p *process) pid() int { return p.cmd.Process.Pid }

func (p *process) name() string { return p.cmd.Args[0] }

// end asks the process to end and then makes it.
func (p *process) end() {
	p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.done:
	case <-time.After(patience / 5):
		p.cmd.Process.Kill()
		<-p.done
	}
}

// until waits for ok while the process lives.
func (p *process) until(ctx context.Context, what string, ok func() bool) error {
	late := time.After(patience)
	for !ok() {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-p.done:
			return fmt.Errorf("%s ended instead of %s:\n%s", p.name(), what, p.log)
		case <-late:
			return fmt.Errorf("%s: not within %v: %s:\n%s", p.name(), patience, what, p.log)
		case <-time.After(5 * time.Millisecond):
		}
	}
	return nil
}

// logBuffer keeps what a process writes.
type logBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// listening is the address in the line in which lockproxy tells it, "" before.
func (l *logBuffer) listening(message string) string {
	for line := range strings.Lines(l.String()) {
		if _, rest, ok := strings.Cut(line, "msg="+message+" "); ok {
			_, addr, _ := strings.Cut(rest, "addr=")
			addr, _, _ = strings.Cut(addr, " ")
			return strings.TrimSpace(addr)
		}
	}
	return ""
}

// Ports are from lowestPort to below highestPort, where no test has servers. The bus of a cluster node is
// 10000 above its port.
const lowestPort, highestPort = 18240, 20240

// freePort is a port of 127.0.0.1 that nobody listens on, nor 10000 above it.
func freePort() (int, error) {
	for range 1000 {
		port := lowestPort + rand.IntN(highestPort-lowestPort)
		if free(port) && free(port+10000) {
			return port, nil
		}
	}
	return 0, fmt.Errorf("no free port below %d on 127.0.0.1", highestPort)
}

func free(port int) bool {
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return false
	}
	l.Close()
	return true
}

// accepts says whether somebody listens there.
func accepts(addr string) bool {
	c, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return false
	}
	c.Close()
	return true
}
