package door

import (
	"crypto/tls"
	"log/slog"
	"net"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A client that speaks TLS is probed as often as any other. R18
func TestKeepAliveBelowTLS(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	client, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	nc, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	d := New(Options{Come: func(Newcomer) {}, Log: slog.New(slog.DiscardHandler)},
		LiveSettings{MaxClients: 1, KeepAlive: 77 * time.Second})
	d.Admit(tls.Server(nc, &tls.Config{}), nil)
	raw, err := nc.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var idle int
	if e := raw.Control(func(fd uintptr) {
		idle, err = unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_KEEPIDLE)
	}); e != nil || err != nil || idle != 77 {
		t.Errorf("probed after %d s, %v %v", idle, e, err)
	}
}
