package faults

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"lockproxy/integration/rig"
)

// startService starts the program as systemd does: with the socket of ln, and with a place for its messages.
func startService(t *testing.T, ln net.Listener, messages string) *rig.Process {
	t.Helper()
	socket, err := ln.(interface{ File() (*os.File, error) }).File()
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	cmd := exec.Command("sh", "-c", `LISTEN_PID=$$ WATCHDOG_PID=$$ exec "$0" "$@"`, rig.Binary(t),
		"--upstream", rig.SharedRedis().Addr, "--admin", "off", "--listen", ln.Addr().String())
	cmd.ExtraFiles = []*os.File{socket}
	cmd.Env = append(os.Environ(), "LISTEN_FDS=1", "NOTIFY_SOCKET="+messages, "WATCHDOG_USEC=800000")
	return rig.StartCommand(t, cmd)
}

// The program tells systemd how it is, and uses its socket: who connects while there is no process waits, and
// is served by the next.
func TestSystemd(t *testing.T) {
	path := filepath.Join(t.TempDir(), "clients")
	for network, addr := range map[string]string{"tcp": "127.0.0.1:0", "unix": path} {
		t.Run(network, func(t *testing.T) {
			t.Parallel()
			ln, err := net.Listen(network, addr)
			if err != nil {
				t.Fatal(err)
			}
			defer ln.Close()
			serveTwice(t, ln)
		})
	}
}

// serveTwice has two processes, one after the other, serve ln.
func serveTwice(t *testing.T, ln net.Listener) {
	path := filepath.Join(t.TempDir(), "notify")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	told := func(want string) {
		t.Helper()
		buf := make([]byte, 1024)
		for end := time.Now().Add(2 * rig.Patience); ; {
			conn.SetReadDeadline(end)
			n, err := conn.Read(buf)
			if err != nil {
				t.Fatalf("systemd was never told %s: %v", want, err)
			}
			if strings.HasPrefix(string(buf[:n]), want) {
				return
			}
		}
	}
	p := startService(t, ln, path)
	told("READY=1\nSTATUS=serving")
	rig.Connect(t, ln.Addr().String()).Must(t, "PING")
	told("WATCHDOG=1")
	p.Signal(syscall.SIGHUP)
	told("RELOADING=1\nMONOTONIC_USEC=")
	told("READY=1")
	p.Signal(syscall.SIGTERM)
	told("STOPPING=1")
	if code := p.Wait(2 * rig.Patience); code != 0 {
		t.Fatalf("exit code %d\n%s", code, p.Log)
	}
	early := rig.Connect(t, ln.Addr().String())
	p = startService(t, ln, path)
	told("READY=1\nSTATUS=serving")
	early.Must(t, "PING")
	p.Signal(syscall.SIGTERM)
	if code := p.Wait(2 * rig.Patience); code != 0 {
		t.Errorf("exit code %d\n%s", code, p.Log)
	}
}
