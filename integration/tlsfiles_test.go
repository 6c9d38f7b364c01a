package integration

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"os"
	"testing"
)

// TestTLSRotation proves that a proxy goes on when all certificates, keys and authorities change under it, those
// of the upstream and its own.
func TestTLSRotation(t *testing.T) {
	t.Parallel()
	old, next := newAuthority(t), newAuthority(t)
	for _, a := range []*authority{old, next} {
		a.issue(t, "server", loopbackIP)
		a.issue(t, "client", nil)
	}
	upstream := launchTLSRedis(t, old)
	mine := &authority{dir: t.TempDir()} // what the proxy reads
	place := func(from *authority) {
		for _, name := range []string{"ca.crt", "server.crt", "server.key", "client.crt", "client.key"} {
			text, err := os.ReadFile(from.file(name))
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(mine.file(name), text, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	place(old)
	p := startProxy(t, "--upstream", upstream, "--upstream-tls", "yes", "--upstream-tls-ca", mine.file("ca.crt"),
		"--upstream-tls-cert", mine.file("client.crt"), "--upstream-tls-key", mine.file("client.key"),
		"--tls-cert", mine.file("server.crt"), "--tls-key", mine.file("server.key"), "--tls-ca", mine.file("ca.crt"))
	secured := func(addr string, a *authority) (*conn, error) {
		pool := x509.NewCertPool()
		pool.AddCert(a.cert)
		pair, err := tls.LoadX509KeyPair(a.file("client.crt"), a.file("client.key"))
		if err != nil {
			t.Fatal(err)
		}
		raw, err := tls.Dial("tcp", addr, &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{pair}})
		if err != nil {
			return nil, err
		}
		return &conn{raw, bufio.NewReader(raw)}, nil
	}
	client, err := secured(p.addr, old)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	client.want(t, "OK", "SET", "k", "v")
	redis, err := secured(upstream, old)
	if err != nil {
		t.Fatal(err)
	}
	defer redis.Close()
	redis.want(t, "OK", "CONFIG", "SET", "tls-cert-file", next.file("server.crt"),
		"tls-key-file", next.file("server.key"), "tls-ca-cert-file", next.file("ca.crt"))
	place(next)
	redis.must(t, "CLIENT", "KILL", "TYPE", "normal") // so that the proxy has to connect anew
	eventually(t, patience, "a client with a new certificate is served", func() bool {
		c, err := secured(p.addr, next)
		if err != nil {
			return false
		}
		defer c.Close()
		v, err := c.do("GET", "k")
		return err == nil && v.text == "v"
	})
	if c, err := secured(p.addr, old); err == nil {
		if v, err := c.do("GET", "k"); err == nil {
			t.Errorf("a client with a certificate of the old authority: %s", v)
		}
	}
	client.want(t, `"v"`, "GET", "k") // who was connected stays
}
