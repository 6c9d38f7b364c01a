package lifecycle

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"
)

// A new process takes the ports of the one before over, through a unix socket (setting takeover):
//
//	new                                         old
//	 | --- connect ------------------------------> |  both look whose process the other is
//	 | <-- its listening sockets, their names ------ |  both accept clients from now on
//	 |     ... finds the upstream, serves          |  serves
//	 | --- "serving" ----------------------------> |  accepts no more, and drains behind drain-delay
//
// They are the same sockets, and not others on the same ports: whoever connects is in one queue, from which
// either process accepts. So nobody is refused or reset when the old one closes its copies.

const (
	// servingLine is what the new process says when it serves.
	servingLine = "serving\n"
	// lateLine is what the old process says to each other one that has the ports by then: it must not serve.
	lateLine = "late\n"
	// Settle is how long the old process serves its clients at least once it accepts no more: those that have
	// just come have not said anything yet.
	Settle = time.Second
	// takeoverPatience is how long a process may take to answer.
	takeoverPatience = 5 * time.Second
	// mostPorts is how many sockets are handed over, and longestNames how long their names are together.
	mostPorts, longestNames = 128, 16 << 10
)

// Before is the process before this one. Whoever has it calls Relieve, or ends: then the other process goes
// on.
type Before struct {
	conn *net.UnixConn
	pid  int
	log  *slog.Logger
}

// TakeOver asks the process before, at a path, for its ports; nil: there is none.
func (p *Ports) TakeOver(path string, log *slog.Logger) (*Before, error) {
	if path == "" {
		return nil, nil
	}
	// From now on Listen keeps copies, which HandOver gives away.
	p.copied = true
	if info, err := os.Lstat(path); err == nil && info.Mode()&os.ModeSocket == 0 {
		return nil, fmt.Errorf("takeover %s: is there and is no socket: name another path", path)
	}
	conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: path, Net: "unix"})
	switch {
	// Nobody listens there: this is the first process, or the one before has died and left its file.
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("takeover: %w", err)
	}
	b := &Before{conn: conn, log: log}
	conn.SetDeadline(time.Now().Add(takeoverPatience))
	all, err := b.receivePorts()
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("takeover %s: %w", path, err)
	}
	p.handed = append(p.handed, all...)
	log.Info("ports of another process are taken over", "pid", b.pid, "ports", len(all))
	return b, nil
}

// receivePorts gets the ports.
func (b *Before) receivePorts() (all []port, err error) {
	if b.pid, err = peer(b.conn); err != nil {
		return nil, err
	}
	text, files, err := receiveFiles(b.conn)
	if err != nil {
		return nil, err
	}
	names := strings.Split(text, "\n")
	// Descriptors without names could be any port: none of them is used.
	if len(names) != len(files) {
		for _, f := range files {
			f.Close()
		}
		return nil, fmt.Errorf("process %d gives %d sockets of %d", b.pid, len(files), len(names))
	}
	for i, f := range files {
		all = append(all, port{names[i], f})
	}
	return all, nil
}

// Relieve tells the process before that this one serves, with all of its ports that it wants. errLate is the
// only
// error that matters: the others are logged, and this process goes on.
func (b *Before) Relieve(p *Ports) error {
	if names := p.closeUnused(); len(names) > 0 {
		b.log.Warn("ports of the other process are closed: no setting names them", "ports", names)
	}
	err := b.sayServing()
	if err != nil && !errors.Is(err, errLate) {
		b.log.Warn("the other process may go on: it has not said that it leaves", "pid", b.pid, "err", err)
		return nil
	}
	return err
}

// sayServing tells the process before that this one serves.
func (b *Before) sayServing() error {
	defer b.conn.Close()
	b.conn.SetDeadline(time.Now().Add(takeoverPatience))
	_, unsaid := io.WriteString(b.conn, servingLine)
	// The answer is the end of the connection. A byte in its place is lateLine.
	n, err := b.conn.Read(make([]byte, 1)) // until it has closed its copies, and so the connection
	switch {
	case n > 0:
		return errLate
	case unsaid != nil:
		return unsaid
	case errors.Is(err, io.EOF):
		return nil
	}
	return err
}

// errLate ends a process: the ports are another one's.
var errLate = errors.New("another process has taken the ports over meanwhile")

// successors hands the ports to a process that asks for them. mu guards gone and asks. relief is called once
// at most.
type successors struct {
	ln     *net.UnixListener
	path   string
	ports  *Ports
	log    *slog.Logger
	relief func()
	mu     sync.Mutex
	gone   bool // handed over: the path belongs to the other process
	ended  bool // nobody gets the ports any more; whoever has them may still take over
	asks   map[*net.UnixConn]bool
}

// HandOver gives the ports, at a path, to a process that asks for them, until stop. Once that serves, relief
// leaves
// them to it. Processes that ask are left alone when life ends.
func (p *Ports) HandOver(
	life context.Context, path string, log *slog.Logger, relief func(),
) (stop func(), err error) {
	if path == "" {
		return func() {}, nil
	}
	// Bound under a name of its own and then renamed: at no moment does the path lead nowhere. Until its mode
	// is set others can open it, and peer turns them away.
	fresh := fmt.Sprintf("%s.%d", path, os.Getpid())
	os.Remove(fresh)
	ln, err := net.ListenUnix("unix", &net.UnixAddr{Name: fresh, Net: "unix"})
	if err != nil {
		return func() {}, fmt.Errorf("takeover: %w", err)
	}
	// The path may be the next process's by then.
	ln.SetUnlinkOnClose(false)
	if err := errors.Join(os.Chmod(fresh, 0o600), os.Rename(fresh, path)); err != nil {
		ln.Close()
		os.Remove(fresh)
		return func() {}, fmt.Errorf("takeover: %w", err)
	}
	s := &successors{ln: ln, path: path, ports: p, log: log, relief: relief,
		asks: make(map[*net.UnixConn]bool)}
	done := make(chan struct{})
	go func() { defer close(done); s.serveSuccessors(life) }() // ends in stop
	return func() {
		s.endServing()
		<-done
	}, nil
}

// endServing ends serveSuccessors. The socket's file is removed, unless it is the successor's.
func (s *successors) endServing() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ln.Close()
	if !s.gone {
		os.Remove(s.path)
	}
	s.ended = true
}

// mostSuccessors is how many processes may ask for the ports at a time.
const mostSuccessors = 8

// serveSuccessors answers all processes that ask, side by side, since one may stay silent, until one has
// taken over.
func (s *successors) serveSuccessors(life context.Context) {
	for {
		conn, err := s.ln.AcceptUnix()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			s.log.Error("takeover: accepting fails", "err", err)
			time.Sleep(100 * time.Millisecond)
			continue
		}
		if !s.addSuccessor(conn) {
			conn.Close()
			continue
		}
		// ends with the other process, with the first that takes over, or with life
		go s.answerSuccessor(life, conn)
	}
}

// addSuccessor reports false if too many ask.
func (s *successors) addSuccessor(conn *net.UnixConn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	// Whoever may ask is of the same user. The bound is for a supervisor that starts it over and over.
	if s.gone || s.ended || len(s.asks) == mostSuccessors {
		return false
	}
	s.asks[conn] = true
	return true
}

// answerSuccessor hands the ports to the process at the other end of conn, and leaves them to it once it
// serves.
func (s *successors) answerSuccessor(life context.Context, conn *net.UnixConn) {
	// It wakes a read that waits for a process which has not served yet.
	stop := context.AfterFunc(life, func() { conn.Close() })
	err := s.handPorts(conn)
	stop()
	// The end of conn is what tells the other process that the ports are its own: relief has left them by
	// then.
	if err == nil && s.claimTakeover(conn) {
		s.relief()
		conn.Close()
		return
	}
	s.mu.Lock()
	delete(s.asks, conn)
	s.mu.Unlock()
	conn.Close()
	if err != nil {
		s.log.Warn("another process has not taken over: this one goes on", "err", err)
	}
}

// claimTakeover reports whether conn is the first to take over. If so, all others that ask are told.
func (s *successors) claimTakeover(conn *net.UnixConn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gone {
		return false
	}
	s.gone = true
	// Nobody else gets the ports from here: the next process asks the one that has them now.
	s.ln.Close()
	for other := range s.asks {
		if other != conn {
			other.SetWriteDeadline(time.Now().Add(takeoverPatience))
			io.WriteString(other, lateLine)
			other.Close()
		}
	}
	return true
}

// handPorts gives copies of all ports to a process, and waits until that serves.
func (s *successors) handPorts(conn *net.UnixConn) error {
	pid, err := peer(conn)
	if err != nil {
		return err
	}
	var names []string
	var files []*os.File
	for _, one := range s.ports.portCopies() {
		names, files = append(names, one.name), append(files, one.file)
	}
	conn.SetWriteDeadline(time.Now().Add(takeoverPatience))
	if err := sendFiles(conn, strings.Join(names, "\n"), files); err != nil {
		return err
	}
	s.log.Info("another process gets the ports", "pid", pid)
	// It blocks for as long as the other process looks for its upstream, with no limit but life.
	line, err := bufio.NewReaderSize(io.LimitReader(conn, int64(len(servingLine))), 16).ReadString('\n')
	if err == nil && line != servingLine {
		err = fmt.Errorf("it says %q", line)
	}
	if err != nil {
		return fmt.Errorf("process %d has ended before it served: %w", pid, err)
	}
	return nil
}
