package rig

import (
	"fmt"
	"os"
	"slices"
	"strings"
)

// OpenRedis lets a server take every command.
var OpenRedis = []string{"--enable-protected-configs", "yes", "--enable-module-command", "yes"}

// Server is one redis-server.
type Server struct {
	*Process
	Addr    string
	Port    int
	program string
	args    []string
	dir     string
	Link    *Link // what stands before it, if others reach it over a link only
}

// StartRedis starts a redis-server with an empty data set and no persistence.
func StartRedis(l Life, args ...string) *Server {
	l.Helper()
	s := newRedis(l, args...)
	s.launch(l)
	s.ready(l)
	return s
}

func newRedis(l Life, args ...string) *Server {
	l.Helper()
	// In memory, if the system has that: a busy disk takes longer for a write than a node timeout.
	dir, err := os.MkdirTemp("/dev/shm", "lockproxy-test-")
	if err != nil {
		dir = l.TempDir()
	}
	l.Cleanup(func() { os.RemoveAll(dir) })
	s := &Server{Port: FreePort(l), program: serverOf(l), args: args, dir: dir}
	s.Addr = fmt.Sprintf("127.0.0.1:%d", s.Port)
	return s
}

// Addrs are where others reach servers, as --upstream takes them.
func Addrs(all []*Server) string {
	var addrs []string
	for _, s := range all {
		addr, _ := s.front()
		addrs = append(addrs, addr)
	}
	return strings.Join(addrs, ",")
}

// front is where others reach the server: its link, if it has one.
func (s *Server) front() (addr string, port int) {
	if s.Link != nil {
		return s.Link.Addr(), s.Link.port()
	}
	return s.Addr, s.Port
}

func (s *Server) launch(l Life) {
	l.Helper()
	args := append([]string{
		"--port", fmt.Sprint(s.Port), "--bind", "127.0.0.1", "--dir", s.dir,
		"--save", "", "--appendonly", "no", "--repl-diskless-sync-delay", "0",
		"--enable-debug-command", "yes",
	}, s.args...)
	s.Process = StartProcess(l, s.program, known(majorOf(s.program), args)...)
}

// known is args without what a server of that version does not know, and allows to everybody: before 7.0
// what OpenRedis and its like ask for.
func known(major int, args []string) []string {
	if major >= 7 {
		return args
	}
	var kept []string
	for i := 0; i < len(args); i++ {
		if strings.HasPrefix(args[i], "--enable-") {
			i++ // with its value
			continue
		}
		kept = append(kept, args[i])
	}
	return kept
}

// understood is args without the rules of ACL SETUSER that the server does not know: before 6.2 all channels
// are everybody's.
func (s *Server) understood(args []string) []string {
	if majorOf(s.program) >= 7 || args[0] != "ACL" {
		return args
	}
	return slices.DeleteFunc(slices.Clone(args), func(arg string) bool { return strings.HasPrefix(arg, "&") })
}

// ready waits until the server answers.
func (s *Server) ready(l Life) {
	l.Helper()
	s.Await(l, "answering at "+s.Addr, func() bool {
		v, err := Ask(s.Addr, "PING")
		return err == nil && v.Text == "PONG" || v.IsError("NOAUTH")
	})
}

// Restart starts the server again at its port after it was killed.
func (s *Server) Restart(l Life) {
	l.Helper()
	s.Kill()
	s.launch(l)
	s.ready(l)
}

// With has the server be started with further arguments from now on.
func (s *Server) With(args ...string) { s.args = append(s.args, args...) }

// Do runs one command on the server for the test itself.
func (s *Server) Do(l Life, args ...string) Reply {
	l.Helper()
	v, err := Ask(s.Addr, s.understood(args)...)
	if err != nil {
		l.Fatalf("redis-server at %s: %v", s.Addr, err)
	}
	return v
}

// Info is one line of INFO.
func (s *Server) Info(l Life, section, field string) string {
	l.Helper()
	return InfoField(s.Do(l, "INFO", section).Text, field)
}

// InfoField is the value of a field in a reply of INFO, "" if there is none.
func InfoField(text, field string) string {
	for line := range strings.Lines(text) {
		if name, value, _ := strings.Cut(strings.TrimSpace(line), ":"); name == field {
			return value
		}
	}
	return ""
}

// LineField is the value of a name in a line of CLIENT LIST.
func LineField(line, name string) string {
	_, rest, _ := strings.Cut(" "+line, " "+name+"=")
	value, _, _ := strings.Cut(rest, " ")
	return strings.TrimSpace(value)
}

// LinesOf are the lines of a text.
func LinesOf(text string) []string { return strings.Split(strings.TrimSuffix(text, "\n"), "\n") }
