package faults

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"testing"
	"time"

	"lockproxy/integration/rig"
)

// startEarly starts a proxy whose upstream is not there yet, with TLS if a is not nil.
func startEarly(t *testing.T, upstream string, args ...string) *rig.Proxy {
	t.Helper()
	all := []string{"--upstream", upstream, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"}
	all = append(all, args...)
	p := &rig.Proxy{Process: rig.StartCommand(t, exec.Command(rig.Binary(t), all...))}
	t.Cleanup(func() { p.Drain(t) })
	p.Admin = "http://" + p.Logged(t, `msg="admin listening" addr=(\S+)`)
	p.Addr = p.Logged(t, `msg="clients are told to wait for the upstream" addr=(\S+)`)
	return p
}

// Clients can connect before the upstream is found, are told why nothing can be done, as is /readyz, and are
// served over the same connections as soon as it can.
func TestClientsBeforeTheUpstream(t *testing.T) {
	t.Parallel()
	s := rig.StartRedis(t)
	s.Kill()
	p := startEarly(t, s.Addr, "--maxclients", "4")
	p.Logged(t, `level=WARN msg="the upstream cannot be used yet" err=".*`+s.Addr+`.*is Redis running there`)
	readyz(t, p, 503, s.Addr, "connection refused", "is Redis running there")

	const why = "LOADING lockproxy has not found its upstream yet: connect: connection refused " +
		"(is Redis running there, and is the port right?)"
	c := rig.Connect(t, p.Addr)
	for _, words := range [][]string{
		{"PING"}, {"HELLO", "3"}, {"LOCK", "l"}, {"GET", strings.Repeat("k", 3000)},
	} {
		if v := c.Call(t, words...); v.Kind != '-' || v.Text != why {
			t.Errorf("%v: %s", words[0], v)
		}
	}
	quits := rig.Connect(t, p.Addr)
	quits.Want(t, "OK", "QUIT")
	if !quits.Closed(rig.Patience) {
		t.Error("QUIT does not end the connection")
	}
	hostile := rig.Connect(t, p.Addr)
	hostile.Write([]byte("*1\r\n$x\r\n"))
	if v, err := hostile.Receive(rig.Patience); err != nil || !v.IsError("ERR") {
		t.Errorf("bytes that are no command: %s %v", v, err)
	}

	half, long := rig.Connect(t, p.Addr), rig.Connect(t, p.Addr)
	half.Write([]byte("*2\r\n$4\r\nECHO\r\n$5\r\nhe"))
	long.Send("SET", "long", strings.Repeat("x", 1<<20)) // is not answered before
	if !long.Silent(time.Second) {
		t.Error("a long command was answered")
	}
	counted := func(now, ever float64) {
		t.Helper()
		rig.Eventually(t, rig.Patience, fmt.Sprintf("clients: %v now, %v ever", now, ever), func() bool {
			return p.Metric(t, "lockproxy_clients", "") == now &&
				p.Metric(t, "lockproxy_clients_accepted_total", "") == ever
		})
		if n := p.Metric(t, "lockproxy_clients_rejected_total", ""); n != 1 {
			t.Errorf("%v clients were rejected", n)
		}
	}
	fourth := rig.Connect(t, p.Addr)
	fourth.Call(t, "PING")
	if v, err := rig.Connect(t, p.Addr).Receive(rig.Patience); err != nil || !v.IsError("ERR max number") {
		t.Errorf("one client more than maxclients: %s %v", v, err)
	}
	counted(4, 6)
	fourth.Close()
	counted(3, 6)
	s.Restart(t)
	p.Logged(t, `msg=listening addr=(`+p.Addr+`)\n`)
	counted(3, 6)
	half.Write([]byte("llo\r\n"))
	if v, err := half.Receive(rig.Patience); err != nil || v.Text != "hello" {
		t.Errorf("a command that was half there: %s %v", v, err)
	}
	if v, err := long.Receive(rig.Patience); err != nil || v.Text != "OK" {
		t.Errorf("a long command: %s %v", v, err)
	}
	c.Want(t, "OK", "SET", "k", "v")
	c.Want(t, `"v"`, "GET", "k")
	rig.Connect(t, p.Addr).Want(t, "PONG", "PING")
	counted(4, 7)
	if text := c.Must(t, "INFO", "stats").Text; rig.InfoField(text, "total_connections_received") != "7" ||
		rig.InfoField(text, "rejected_connections") != "1" {
		t.Errorf("INFO stats:\n%s", text)
	}
	readyz(t, p, 200, "ready")
}

// Who would have to log in is not told what is behind the proxy.
func TestClientsBeforeTheUpstreamWithSecrets(t *testing.T) {
	t.Parallel()
	s := rig.StartRedis(t)
	s.Kill()
	a := rig.NewAuthority(t)
	a.Issue(t, "server", rig.LoopbackIP)
	p := startEarly(t, s.Addr, "--requirepass", "secret", "--tls-cert", a.File("server.crt"),
		"--tls-key", a.File("server.key"))
	readyz(t, p, 503, "connection refused")
	roots := x509.NewCertPool()
	roots.AddCert(a.Cert)
	nc, err := tls.Dial("tcp", p.Addr, &tls.Config{RootCAs: roots})
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	c := rig.NewConn(nc)
	for _, words := range [][]string{{"PING"}, {"AUTH", "secret"}, {"AUTH", "wrong"}} {
		if v := c.Call(t, words...); v.Text != "LOADING lockproxy has not found its upstream yet" {
			t.Errorf("%v: %s", words, v)
		}
	}
	c.Write([]byte("*1\r\n$4\r\nPI"))
	s.Restart(t)
	p.Logged(t, `msg=listening addr=(`+p.Addr+`)\n`)
	c.Write([]byte("NG\r\n"))
	if v, err := c.Receive(rig.Patience); err != nil || !v.IsError("NOAUTH") {
		t.Errorf("without a password: %s %v", v, err)
	}
	c.Want(t, "OK", "AUTH", "secret")
	c.Want(t, "OK", "SET", "k", "v")
	c.Want(t, "OK", "QUIT")
	if _, err := nc.Read(make([]byte, 1)); err != io.EOF { // without close_notify it is another error
		t.Errorf("TLS ends with %v", err)
	}
}

// listen-at-once no: nobody gets in who cannot be served.
func TestPortClosedBeforeTheUpstream(t *testing.T) {
	t.Parallel()
	s := rig.StartRedis(t)
	s.Kill()
	addr := fmt.Sprintf("127.0.0.1:%d", rig.FreePort(t))
	p := &rig.Proxy{Process: rig.StartProcess(t, rig.Binary(t), "--upstream", s.Addr, "--listen", addr,
		"--admin", "127.0.0.1:0", "--listen-at-once", "no")}
	p.Admin = "http://" + p.Logged(t, `msg="admin listening" addr=(\S+)`)
	t.Cleanup(func() { p.Drain(t) })
	readyz(t, p, 503, "connection refused")
	if c, err := rig.Dial(addr); err == nil {
		c.Close()
		t.Error("the port is open")
	}
	s.Restart(t)
	p.Logged(t, `msg=listening addr=(`+addr+`)\n`)
	rig.Connect(t, addr).Want(t, "PONG", "PING")
}

// The same for masters of RedLock, of which too few are there.
func TestMastersBeforeTheyAreReached(t *testing.T) {
	t.Parallel()
	masters := rig.StartMasters(t, 3)
	masters[1].Kill()
	masters[2].Kill()
	p := startEarly(t, rig.SharedRedis().Addr, "--redlock",
		masters[0].Addr+","+masters[1].Addr+","+masters[2].Addr)
	for _, s := range masters[1:] {
		p.Logged(t, `level=WARN msg="master is away" node=(`+s.Addr+`) err=".*is Redis running there`)
		readyz(t, p, 503, "redlock: 1 of 3 masters answer, and 2 are needed", s.Addr, "connection refused",
			"is Redis running there")
	}
	c := rig.Connect(t, p.Addr)
	const why = "LOADING lockproxy has not reached most of its masters of RedLock yet: " +
		"connect: connection refused (is Redis running there"
	if v := c.Call(t, "LOCK", "l"); !strings.HasPrefix(v.Text, why) {
		t.Errorf("LOCK: %s", v)
	}
	p.Logged(t, `level=WARN msg="master is still away" node=(`+masters[1].Addr+`) for=[1-9]\ds err=`)
	masters[1].Restart(t)
	p.Logged(t, `level=INFO msg="master is back" node=(`+masters[1].Addr+`) after=`)
	p.Logged(t, `msg=listening addr=(`+p.Addr+`)\n`)
	c.Want(t, "PONG", "PING")
}
