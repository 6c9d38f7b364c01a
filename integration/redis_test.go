package integration

import (
	"fmt"
	"strings"
	"time"
)

// server is one redis-server.
type server struct {
	*process
	addr string
	port int
	args []string
	dir  string
	link *link // what stands before it, if others reach it over a link only
}

// startRedis starts a redis-server with an empty data set and no persistence.
func startRedis(l life, args ...string) *server {
	l.Helper()
	s := launchRedis(l, args...)
	s.ready(l)
	return s
}

// launchRedis starts a redis-server and does not wait for it.
func launchRedis(l life, args ...string) *server {
	l.Helper()
	s := newRedis(l, args...)
	s.launch(l)
	return s
}

func newRedis(l life, args ...string) *server {
	l.Helper()
	s := &server{port: freePort(l), args: args, dir: l.TempDir()}
	s.addr = fmt.Sprintf("127.0.0.1:%d", s.port)
	return s
}

// front is where others reach the server: its link, if it has one.
func (s *server) front() (addr string, port int) {
	if s.link != nil {
		return s.link.addr(), s.link.port()
	}
	return s.addr, s.port
}

func (s *server) launch(l life) {
	l.Helper()
	args := append([]string{
		"--port", fmt.Sprint(s.port), "--bind", "127.0.0.1", "--dir", s.dir,
		"--save", "", "--appendonly", "no", "--repl-diskless-sync-delay", "0",
		"--enable-debug-command", "yes",
	}, s.args...)
	s.process = startProcess(l, "redis-server", args...)
}

// ready waits until the server answers.
func (s *server) ready(l life) {
	l.Helper()
	end := time.Now().Add(patience)
	for {
		v, err := ask(s.addr, "PING")
		if err == nil && v.text == "PONG" || err != nil && strings.Contains(err.Error(), "NOAUTH") {
			return
		}
		if s.ended() || time.Now().After(end) {
			l.Fatalf("redis-server at %s does not answer: %v\n%s", s.addr, err, s.log.tail())
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// restart starts the server again at its port after it was killed.
func (s *server) restart(l life) {
	l.Helper()
	s.kill()
	s.launch(l)
	s.ready(l)
}

// do runs one command on the server for the test itself.
func (s *server) do(l life, args ...string) reply {
	l.Helper()
	v, err := ask(s.addr, args...)
	if err != nil {
		l.Fatalf("redis-server at %s: %v", s.addr, err)
	}
	return v
}

// info is one line of INFO.
func (s *server) info(l life, section, field string) string {
	l.Helper()
	return infoField(s.do(l, "INFO", section).text, field)
}

func infoField(text, field string) string {
	for line := range strings.Lines(text) {
		if name, value, _ := strings.Cut(strings.TrimSpace(line), ":"); name == field {
			return value
		}
	}
	return ""
}
