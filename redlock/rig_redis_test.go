//go:build !quick

package redlock

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"
)

// startRedis starts a redis-server of its own, with more arguments if given. It ends with the test.
func startRedis(t testing.TB, args ...string) *server {
	t.Helper()
	dir, err := os.MkdirTemp("", "redlock") // a unix socket's path must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	socket := filepath.Join(dir, "s")
	process := exec.Command("redis-server", append([]string{"--port", "0", "--unixsocket", socket, "--dir", dir, "--save", "", "--appendonly", "no"}, args...)...)
	if err := process.Start(); err != nil {
		t.Fatalf("these tests need redis-server, which `make test` installs: %v", err)
	}
	t.Cleanup(func() {
		process.Process.Kill()
		process.Wait()
	})
	s := &server{t: t, sent: true, dial: func() (net.Conn, error) { return net.Dial("unix", socket) }}
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		conn, err := s.dial()
		if err == nil {
			conn.Close()
			return s
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}

// everywhere runs test against a real Redis, and against one in fake time.
func everywhere(t *testing.T, test func(t *testing.T, s *server)) {
	t.Run("redis", func(t *testing.T) { test(t, startRedis(t)) })
	t.Run("fake time", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) { test(t, newMini(t)) })
	})
}
