package integration

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"net"
	"path/filepath"
	"testing"
)

// ways are how clients connect.
var ways = []string{"tcp", "tls", "unix"}

// startFor starts a proxy whose clients connect over one of ways, and returns how they do.
func startFor(t *testing.T, way string, args ...string) (p *lockproxy, dial func() *conn) {
	t.Helper()
	switch way {
	case "unix":
		args = append(args, "--listen", filepath.Join(t.TempDir(), "s"))
	case "tls":
		a := newAuthority(t)
		a.issue(t, "server", loopbackIP)
		p = startProxy(t, append(args, "--tls-cert", a.file("server.crt"), "--tls-key", a.file("server.key"))...)
		pool := x509.NewCertPool()
		pool.AddCert(a.cert)
		return p, func() *conn {
			t.Helper()
			c, err := tls.Dial("tcp", p.addr, &tls.Config{RootCAs: pool})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { c.Close() })
			return &conn{c, bufio.NewReader(c)}
		}
	}
	p = startProxy(t, args...)
	return p, func() *conn { t.Helper(); return connect(t, p.addr) }
}

// breakOff closes the connection without any farewell, with a reset where there is such a thing.
func (c *conn) breakOff() {
	nc := c.Conn
	if over, ok := nc.(*tls.Conn); ok {
		nc = over.NetConn()
	}
	if tcp, ok := nc.(*net.TCPConn); ok {
		tcp.SetLinger(0)
	}
	nc.Close()
}
