//go:build !quick

package rig

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// StartRedis starts a redis-server of its own, with more arguments if given. It ends with the test. It
// listens on a unix socket alone, keeps nothing on disk, and is asked which of the newer commands it knows.
func StartRedis(t testing.TB, args ...string) *Server {
	t.Helper()
	dir, err := os.MkdirTemp("", "redlock") // a unix socket's path must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	socket := filepath.Join(dir, "s")
	process := exec.Command("redis-server", append([]string{
		"--port", "0", "--unixsocket", socket, "--dir", dir, "--save", "", "--appendonly", "no"}, args...)...)
	if err := process.Start(); err != nil {
		t.Fatalf("these tests need redis-server, which `make test` installs: %v", err)
	}
	t.Cleanup(func() {
		process.Process.Kill()
		process.Wait()
	})
	s := &Server{T: t, Dial: func() (net.Conn, error) { return net.Dial("unix", socket) }}
	for deadline := time.Now().Add(Patience); ; time.Sleep(10 * time.Millisecond) {
		conn, err := s.Dial()
		if err == nil {
			conn.Close()
			known := s.Ask("COMMAND", "INFO", "spublish", "delifeq", "delex").Elems
			s.Sent = !known[0].Null()
			for i, command := range []string{"DELIFEQ", "DELEX"} {
				if !known[1+i].Null() {
					s.DeleteIf = command
				}
			}
			return s
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}

// onRedis runs test against a real Redis.
func onRedis(t *testing.T, test func(t *testing.T, s *Server)) {
	t.Run("redis", func(t *testing.T) { test(t, StartRedis(t)) })
}
