//go:build !quick

package commands_test

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// realRedis starts a redis-server of its own and returns a function that runs a
// command on it.
func realRedis(t *testing.T) func(words ...string) []byte {
	t.Helper()
	dir, err := os.MkdirTemp("", "commands") // a unix socket's path must be short
	if err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(dir, "s")
	server := exec.Command("redis-server", "--port", "0", "--unixsocket", socket, "--dir", dir, "--save", "",
		"--appendonly", "no")
	if err := server.Start(); err != nil {
		t.Fatalf("redis-server must be installed for this test: %v", err)
	}
	t.Cleanup(func() {
		server.Process.Kill()
		server.Wait()
		os.RemoveAll(dir)
	})
	var conn net.Conn
	for tries := 12_000; ; tries-- { // two minutes: only a hung server takes them
		if conn, err = net.Dial("unix", socket); err == nil {
			break
		}
		if tries == 0 {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Cleanup(func() { conn.Close() })
	return func(words ...string) []byte { return exchange(t, conn, words...) }
}
