package main

import (
	"errors"
	"io"
	"net"
	"path/filepath"
	"testing"

	"lockproxy/cmd/lockproxy/files"
	"lockproxy/cmd/lockproxy/settings"
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
	v := settings.Defaults()
	v.Admin = "127.0.0.1:0"
	p := newProgram(settings.NewConfig(v), files.Certs{}, io.Discard)
	defer p.stopAdmin()
	if _, err := p.succeed(t.Context(), &before{conn: conn}); !errors.Is(err, errLate) {
		t.Errorf("it goes on: %v", err)
	}
}

// A path that cannot be listened on ends the start, with the reason.
func TestTakeoverNowhere(t *testing.T) {
	v := settings.Defaults()
	v.Takeover = filepath.Join(t.TempDir(), "missing", "socket")
	stop, err := newProgram(settings.NewConfig(v), files.Certs{}, io.Discard).startTakeover(t.Context())
	if err == nil {
		t.Error("it listens")
	}
	stop()
}
