package faults

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"path/filepath"
	"testing"

	"lockproxy/integration/rig"
)

// ways are how clients connect.
var ways = []string{"tcp", "tls", "unix"}

// startFor starts a proxy whose clients connect over one of ways, and returns how they do.
func startFor(t *testing.T, way string, args ...string) (p *rig.Proxy, dial func() *rig.Conn) {
	t.Helper()
	switch way {
	case "unix":
		args = append(args, "--listen", filepath.Join(t.TempDir(), "s"))
	case "tls":
		a := rig.NewAuthority(t)
		a.Issue(t, "server", rig.LoopbackIP)
		p = rig.StartProxy(t,
			append(args, "--tls-cert", a.File("server.crt"), "--tls-key", a.File("server.key"))...)
		pool := x509.NewCertPool()
		pool.AddCert(a.Cert)
		return p, func() *rig.Conn {
			t.Helper()
			c, err := tls.Dial("tcp", p.Addr, &tls.Config{RootCAs: pool})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { c.Close() })
			return rig.NewConn(c)
		}
	}
	p = rig.StartProxy(t, args...)
	return p, func() *rig.Conn { t.Helper(); return rig.Connect(t, p.Addr) }
}

// breakOff closes the connection without any farewell, with a reset where there is such a thing.
func breakOff(c *rig.Conn) {
	nc := c.Conn
	if over, ok := nc.(*tls.Conn); ok {
		nc = over.NetConn()
	}
	if tcp, ok := nc.(*net.TCPConn); ok {
		tcp.SetLinger(0)
	}
	nc.Close()
}
