package lifecycle

import (
	"errors"
	"io"
	"log/slog"
	"net"
	"path/filepath"
	"testing"
)

// A process that has the ports, but serves only when another one has taken them over, ends.
func TestLateSuccessorEnds(t *testing.T) {
	addr := &net.UnixAddr{Name: filepath.Join(t.TempDir(), "old"), Net: "unix"}
	ln, err := net.ListenUnix("unix", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	conn, err := net.DialUnix("unix", nil, addr)
	if err != nil {
		t.Fatal(err)
	}
	old, err := ln.AcceptUnix()
	if err != nil {
		t.Fatal(err)
	}
	io.WriteString(old, lateLine)
	old.Close()
	b := &Before{conn: conn, log: slog.New(slog.DiscardHandler)}
	if err := b.Relieve(new(Ports)); !errors.Is(err, errLate) {
		t.Errorf("it goes on: %v", err)
	}
}

// A path that cannot be listened on ends the start, with the reason.
func TestTakeoverNowhere(t *testing.T) {
	path := filepath.Join(t.TempDir(), "missing", "socket")
	stop, err := new(Ports).HandOver(t.Context(), path, slog.New(slog.DiscardHandler), func() {})
	if err == nil {
		t.Error("it listens")
	}
	stop()
}
