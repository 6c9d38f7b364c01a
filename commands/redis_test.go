package commands

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"lockproxy/internal/resp"
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
	server := exec.Command("redis-server", "--port", "0", "--unixsocket", socket, "--dir", dir, "--save", "", "--appendonly", "no")
	if err := server.Start(); err != nil {
		t.Fatalf("redis-server must be installed for this test: %v", err)
	}
	t.Cleanup(func() {
		server.Process.Kill()
		server.Wait()
		os.RemoveAll(dir)
	})
	var conn net.Conn
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		if conn, err = net.Dial("unix", socket); err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { conn.Close() })
	return func(words ...string) []byte { return converse(t, conn, words...) }
}

// converse sends one command and reads one reply.
func converse(t *testing.T, conn net.Conn, words ...string) []byte {
	t.Helper()
	conn.SetDeadline(time.Now().Add(20 * time.Second))
	if _, err := conn.Write(resp.AppendCommandStrings(nil, words...)); err != nil {
		t.Fatal(err)
	}
	var reply []byte
	for buf := make([]byte, 64<<10); ; {
		n, err := conn.Read(buf)
		if err != nil {
			t.Fatalf("%q: %v", words, err)
		}
		reply = append(reply, buf[:n]...)
		var f resp.Framer
		if size, done, err := f.Next(reply); err != nil || done && size < len(reply) {
			t.Fatalf("%q: %q, %v", words, reply, err)
		} else if done {
			return reply
		}
	}
}
