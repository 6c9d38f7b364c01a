package rig

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"path/filepath"
	"testing"
)

// Ways are how clients connect.
var Ways = []string{"tcp", "tls", "unix"}

// StartFor starts a proxy whose clients connect over one of ways, and returns how they do.
func StartFor(t *testing.T, way string, args ...string) (p *Proxy, dial func() *Conn) {
	t.Helper()
	switch way {
	case "unix":
		args = append(args, "--listen", filepath.Join(t.TempDir(), "s"))
	case "tls":
		a := NewAuthority(t)
		a.Issue(t, "server", LoopbackIP)
		p = StartProxy(t,
			append(args, "--tls-cert", a.File("server.crt"), "--tls-key", a.File("server.key"))...)
		pool := x509.NewCertPool()
		pool.AddCert(a.Cert)
		return p, func() *Conn {
			t.Helper()
			c, err := tls.Dial("tcp", p.Addr, &tls.Config{RootCAs: pool})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { c.Close() })
			return NewConn(c)
		}
	}
	p = StartProxy(t, args...)
	return p, func() *Conn { t.Helper(); return Connect(t, p.Addr) }
}

// BreakOff closes the connection without any farewell, with a reset where there is such a thing.
func (c *Conn) BreakOff() {
	nc := c.Conn
	if over, ok := nc.(*tls.Conn); ok {
		nc = over.NetConn()
	}
	if tcp, ok := nc.(*net.TCPConn); ok {
		tcp.SetLinger(0)
	}
	nc.Close()
}
