package attacks

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"testing"

	"lockproxy/integration/rig"
)

// TestTLSRotation proves that a proxy goes on when all certificates, keys and authorities change under it,
// those of the upstream and its own.
func TestTLSRotation(t *testing.T) {
	t.Parallel()
	old, next := rig.NewAuthority(t), rig.NewAuthority(t)
	for _, a := range []*rig.Authority{old, next} {
		a.Issue(t, "server", rig.LoopbackIP)
		a.Issue(t, "client", nil)
	}
	upstream := rig.LaunchTLSRedis(t, old)
	mine := &rig.Authority{Dir: t.TempDir()} // what the proxy reads
	place := func(from *rig.Authority) {
		for _, name := range []string{"ca.crt", "server.crt", "server.key", "client.crt", "client.key"} {
			text, err := os.ReadFile(from.File(name))
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(mine.File(name), text, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	place(old)
	p := rig.StartProxy(t, "--upstream", upstream, "--upstream-tls", "yes", "--upstream-tls-ca",
		mine.File("ca.crt"),
		"--upstream-tls-cert", mine.File("client.crt"), "--upstream-tls-key", mine.File("client.key"),
		"--tls-cert", mine.File("server.crt"), "--tls-key", mine.File("server.key"), "--tls-ca",
		mine.File("ca.crt"))
	secured := func(addr string, a *rig.Authority) (*rig.Conn, error) {
		pool := x509.NewCertPool()
		pool.AddCert(a.Cert)
		pair, err := tls.LoadX509KeyPair(a.File("client.crt"), a.File("client.key"))
		if err != nil {
			t.Fatal(err)
		}
		raw, err := tls.Dial("tcp", addr, &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{pair}})
		if err != nil {
			return nil, err
		}
		return rig.NewConn(raw), nil
	}
	client, err := secured(p.Addr, old)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	client.Want(t, "OK", "SET", "k", "v")
	redis, err := secured(upstream, old)
	if err != nil {
		t.Fatal(err)
	}
	defer redis.Close()
	redis.Want(t, "OK", "CONFIG", "SET", "tls-cert-file", next.File("server.crt"),
		"tls-key-file", next.File("server.key"), "tls-ca-cert-file", next.File("ca.crt"))
	place(next)
	redis.Must(t, "CLIENT", "KILL", "TYPE", "normal") // so that the proxy has to connect anew
	rig.Eventually(t, rig.Patience, "a client with a new certificate is served", func() bool {
		c, err := secured(p.Addr, next)
		if err != nil {
			return false
		}
		defer c.Close()
		v, err := c.Do("GET", "k")
		return err == nil && v.Text == "v"
	})
	if c, err := secured(p.Addr, old); err == nil {
		if v, err := c.Do("GET", "k"); err == nil {
			t.Errorf("a client with a certificate of the old authority: %s", v)
		}
	}
	client.Want(t, `"v"`, "GET", "k") // who was connected stays
}
