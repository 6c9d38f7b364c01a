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

// Before is the process before this one.
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
	p.copied = true
	if info, err := os.Lstat(path); err == nil && info.Mode()&os.ModeSocket == 0 {
		return nil, fmt.Errorf("takeover %s: is there and is no socket: name another path", path)
	}
	conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: path, Net: "unix"})
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("takeover: %w", err)
	}
	b := &Before{conn: conn, log: log}
	conn.SetDeadline(time.Now().Add(takeoverPatience))
	all, err := b.receive()
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("takeover %s: %w", path, err)
	}
	p.take(all)
	log.Info("ports of another process are taken over", "pid", b.pid, "ports", len(all))
	return b, nil
}

// receive gets the ports.
func (b *Before) receive() (all []port, err error) {
	if b.pid, err = peer(b.conn); err != nil {
		return nil, err
	}
	text, files, err := receiveFiles(b.conn)
	if err != nil {
		return nil, err
	}
	names := strings.Split(text, "\n")
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
	if names := p.unused(); len(names) > 0 {
		b.log.Warn("ports of the other process are closed: no setting names them", "ports", names)
	}
	err := b.relieve()
	if err != nil && !errors.Is(err, errLate) {
		b.log.Warn("the other process may go on: it has not said that it leaves", "pid", b.pid, "err", err)
		return nil
	}
	return err
}

// relieve tells the process before that this one serves.
func (b *Before) relieve() error {
	defer b.conn.Close()
	b.conn.SetDeadline(time.Now().Add(takeoverPatience))
	_, unsaid := io.WriteString(b.conn, servingLine)
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

// successors hands the ports to a process that asks for them.
type successors struct {
	ln     *net.UnixListener
	path   string
	ports  *Ports
	log    *slog.Logger
	relief func()
	mu     sync.Mutex
	gone   bool // handed over: the path belongs to the other process
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
	fresh := fmt.Sprintf("%s.%d", path, os.Getpid())
	os.Remove(fresh)
	ln, err := net.ListenUnix("unix", &net.UnixAddr{Name: fresh, Net: "unix"})
	if err != nil {
		return func() {}, fmt.Errorf("takeover: %w", err)
	}
	ln.SetUnlinkOnClose(false)
	if err := errors.Join(os.Chmod(fresh, 0o600), os.Rename(fresh, path)); err != nil {
		ln.Close()
		os.Remove(fresh)
		return func() {}, fmt.Errorf("takeover: %w", err)
	}
	s := &successors{ln: ln, path: path, ports: p, log: log, relief: relief,
		asks: make(map[*net.UnixConn]bool)}
	done := make(chan struct{})
	go func() { defer close(done); s.serve(life) }() // ends in stop
	return func() {
		s.close()
		<-done
	}, nil
}

// close ends serve. The socket's file is removed, unless it is the successor's.
func (s *successors) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ln.Close()
	if !s.gone {
		os.Remove(s.path)
		s.gone = true
	}
}

// mostSuccessors is how many processes may ask for the ports at a time.
const mostSuccessors = 8

// serve answers all processes that ask, side by side, since one may stay silent, until one has taken over.
func (s *successors) serve(life context.Context) {
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
		if !s.enter(conn) {
			conn.Close()
			continue
		}
		go s.answer(life, conn) // ends with the other process, with the first that takes over, or with life
	}
}

// enter reports false if too many ask.
func (s *successors) enter(conn *net.UnixConn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gone || len(s.asks) == mostSuccessors {
		return false
	}
	s.asks[conn] = true
	return true
}

// answer hands the ports to the process at the other end of conn, and leaves them to it once it serves.
func (s *successors) answer(life context.Context, conn *net.UnixConn) {
	stop := context.AfterFunc(life, func() { conn.Close() })
	err := s.hand(conn)
	stop()
	if err == nil && s.first(conn) {
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

// first reports whether conn is the first to take over. If so, all others that ask are told.
func (s *successors) first(conn *net.UnixConn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gone {
		return false
	}
	s.gone = true
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

// hand gives copies of all ports to a process, and waits until that serves.
func (s *successors) hand(conn *net.UnixConn) error {
	pid, err := peer(conn)
	if err != nil {
		return err
	}
	var names []string
	var files []*os.File
	for _, one := range s.ports.all() {
		names, files = append(names, one.name), append(files, one.file)
	}
	conn.SetWriteDeadline(time.Now().Add(takeoverPatience))
	if err := sendFiles(conn, strings.Join(names, "\n"), files); err != nil {
		return err
	}
	s.log.Info("another process gets the ports", "pid", pid)
	line, err := bufio.NewReaderSize(io.LimitReader(conn, int64(len(servingLine))), 16).ReadString('\n')
	if err == nil && line != servingLine {
		err = fmt.Errorf("it says %q", line)
	}
	if err != nil {
		return fmt.Errorf("process %d has ended before it served: %w", pid, err)
	}
	return nil
}
