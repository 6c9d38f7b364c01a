package integration

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

var angle = regexp.MustCompile(`<[^<>\n]+>`)

// authority makes certificates for a test, as PEM files in a directory of its own.
type authority struct {
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	next int64
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{dir: t.TempDir()}
	a.cert, a.key = a.issue(t, "ca", nil)
	return a
}

// file is the path of name's certificate ("ca.crt") or key ("server.key").
func (a *authority) file(name string) string { return filepath.Join(a.dir, name) }

// issue makes name.crt and name.key, signed by the authority; itself if it has none yet.
func (a *authority) issue(t *testing.T, name string, ips []net.IP) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	a.next++
	template := &x509.Certificate{
		SerialNumber: big.NewInt(a.next), Subject: pkix.Name{CommonName: name}, IPAddresses: ips,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: a.cert == nil, BasicConstraintsValid: true,
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	parent, signer := a.cert, a.key
	if parent == nil {
		parent, signer = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for file, block := range map[string]*pem.Block{
		name + ".crt": {Type: "CERTIFICATE", Bytes: der},
		name + ".key": {Type: "PRIVATE KEY", Bytes: secret},
	} {
		if err := os.WriteFile(a.file(file), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cert, key
}

var loopbackIP = []net.IP{net.IPv4(127, 0, 0, 1)}

// TLS on both sides, with certificates of clients.
func TestTLS(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	a.issue(t, "server", loopbackIP)
	a.issue(t, "client", nil)
	upstream := launchTLSRedis(t, a)
	p := startProxy(t, "--upstream", upstream, "--upstream-tls", "yes", "--upstream-tls-ca", a.file("ca.crt"),
		"--upstream-tls-cert", a.file("client.crt"), "--upstream-tls-key", a.file("client.key"),
		"--tls-cert", a.file("server.crt"), "--tls-key", a.file("server.key"), "--tls-ca", a.file("ca.crt"))

	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	pair, err := tls.LoadX509KeyPair(a.file("client.crt"), a.file("client.key"))
	if err != nil {
		t.Fatal(err)
	}
	raw, err := tls.Dial("tcp", p.addr, &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{pair}})
	if err != nil {
		t.Fatal(err)
	}
	c := &conn{raw, bufio.NewReader(raw)}
	c.must(t, "LOCK", "warm", "WAIT", "1000", "PX", "1")
	before := p.usage(t) // with one client
	c.want(t, "OK", "SET", "tls", strings.Repeat("x", 1<<20))
	if v := c.must(t, "GET", "tls"); len(v.text) != 1<<20 {
		t.Errorf("GET of 1 MB: %d bytes", len(v.text))
	}
	if v := c.must(t, "LOCK", "tls", "PX", "5000"); len(v.elems) != 4 {
		t.Errorf("LOCK: %s", v)
	}
	waiter, err := tls.Dial("tcp", p.addr, &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{pair}})
	if err != nil {
		t.Fatal(err)
	}
	waiter.Write(encode("LOCK", "tls", "WAIT", "60000"))
	eventually(t, patience, "it waits", func() bool { return c.must(t, "LOCKCTL", "INFO", "tls").field("waiters").int() == 1 })
	waiter.Close()
	eventually(t, patience, "it has left", func() bool { return c.must(t, "LOCKCTL", "INFO", "tls").field("waiters").int() == 0 })
	c.Close()

	cli := []string{"--tls", "--cacert", a.file("ca.crt")}
	with := append(cli, "--cert", a.file("client.crt"), "--key", a.file("client.key"))
	if out := tool(t, p.addr, "", "redis-cli", append(with, "PING")...); strings.TrimSpace(out) != "PONG" {
		t.Errorf("redis-cli with a certificate: %s", out)
	}
	if out := tool(t, p.addr, "PING\n", "redis-cli", cli...); strings.Contains(out, "PONG") {
		t.Errorf("redis-cli without a certificate: %s", out)
	}
	plain := connect(t, p.addr)
	plain.send("PING")
	if !plain.closed(patience) {
		t.Error("a client without TLS is not closed")
	}
	p.returnsTo(t, before)
}

// launchTLSRedis starts a Redis that speaks only TLS and wants certificates.
func launchTLSRedis(t *testing.T, a *authority) (addr string) {
	t.Helper()
	port := freePort(t)
	addr = net.JoinHostPort("127.0.0.1", itoa(port))
	s := startProcess(t, "redis-server", "--port", "0", "--tls-port", itoa(port), "--bind", "127.0.0.1", "--dir", t.TempDir(), "--save", "",
		"--tls-cert-file", a.file("server.crt"), "--tls-key-file", a.file("server.key"), "--tls-ca-cert-file", a.file("ca.crt"))
	eventually(t, patience, "redis-server listens for TLS", func() bool {
		c, err := net.Dial("tcp", addr)
		if err == nil {
			c.Close()
		}
		return err == nil || s.ended()
	})
	if s.ended() {
		t.Fatalf("redis-server with TLS: %s", s.log.tail())
	}
	return addr
}

func TestPassword(t *testing.T) {
	t.Parallel()
	upstream := startRedis(t, "--requirepass", "upstream secret")
	p := startProxy(t, "--upstream", upstream.addr, "--upstream-password", "upstream secret", "--requirepass", "front secret")
	c := connect(t, p.addr)
	const noauth = "(error) NOAUTH Authentication required."
	c.want(t, noauth, "PING")
	c.want(t, noauth, "GET", "k")
	c.want(t, noauth, "LOCK", "job")
	c.want(t, noauth, "COMMAND")
	c.want(t, noauth, "CONFIG", "GET", "requirepass")
	const wrong = "(error) WRONGPASS invalid username-password pair or user is disabled."
	c.want(t, wrong, "AUTH", "nonsense")
	c.want(t, wrong, "AUTH", "default", "upstream secret")
	c.want(t, wrong, "AUTH", "nobody", "front secret")
	c.want(t, wrong, "HELLO", "3", "AUTH", "default", "nonsense")
	c.want(t, noauth, "GET", "k")
	if v := c.call(t, "HELLO", "3"); !v.isError("NOAUTH") {
		t.Errorf("HELLO without a password: %s", v)
	}
	c.want(t, "OK", "AUTH", "front secret")
	c.want(t, "OK", "SET", "k", "v")
	c.want(t, `"v"`, "GET", "k")
	c.want(t, "RESET", "RESET")
	c.want(t, noauth, "GET", "k")
	d := connect(t, p.addr)
	if v := d.must(t, "HELLO", "3", "AUTH", "default", "front secret", "SETNAME", "me"); v.field("proto").int() != 3 {
		t.Errorf("HELLO 3 AUTH: %s", v)
	}
	d.want(t, `"me"`, "CLIENT", "GETNAME")
	d.want(t, `"v"`, "GET", "k")
	d.want(t, "OK", "CONFIG", "SET", "requirepass", "new secret")
	connect(t, p.addr).want(t, wrong, "AUTH", "front secret")
	connect(t, p.addr).want(t, "OK", "AUTH", "new secret")
	for _, secret := range []string{"front secret", "new secret", "upstream secret"} {
		if strings.Contains(p.log.String(), secret) {
			t.Errorf("the log shows a password:\n%s", p.log)
		}
	}
}

// The upstream's ACL user may have commands and keys of its own only: what it
// may not do comes back as Redis says it.
func TestUpstreamUser(t *testing.T) {
	t.Parallel()
	s := startRedis(t)
	s.do(t, "ACL", "SETUSER", "app", "on", ">pw", "~app:*", "~lock:*", "&*", "+@all", "-keys")
	p := startProxy(t, "--upstream", s.addr, "--upstream-user", "app", "--upstream-password", "pw")
	c := connect(t, p.addr)
	c.want(t, "OK", "SET", "app:k", "v")
	if v := c.call(t, "SET", "other", "v"); !v.isError("NOPERM") {
		t.Errorf("SET of a key that is not allowed: %s", v)
	}
	if v := c.must(t, "LOCK", "job", "TOKEN", "t"); len(v.elems) != 4 {
		t.Errorf("LOCK: %s", v)
	}
	c.want(t, "(integer) 1", "UNLOCK", "job", "t")
	bad := startProcess(t, binary(t), "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--upstream", s.addr, "--upstream-user", "app", "--upstream-password", "no")
	eventually(t, patience, "the log says what is wrong", func() bool { return strings.Contains(bad.log.String(), "WRONGPASS") })
	if strings.Contains(bad.log.String(), "msg=listening") {
		t.Errorf("listens without an upstream it may use:\n%s", bad.log)
	}
}

func TestUnixSocket(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "lockproxy.sock")
	p := startProxy(t, "--dev", "--listen", path+",127.0.0.1:0")
	p.logged(t, `msg=listening addr=(127\.0\.0\.1:\d+)`)
	c := connect(t, path)
	c.want(t, "OK", "SET", "k", "v")
	tcp := connect(t, p.logged(t, `msg=listening addr=(127\.0\.0\.1:\d+)`))
	tcp.want(t, `"v"`, "GET", "k")
	if v := c.must(t, "LOCK", "job", "PX", "5000"); len(v.elems) != 4 {
		t.Errorf("LOCK: %s", v)
	}
	tcp.want(t, "(nil)", "LOCK", "job")
	c.Close()
	tcp.Close()
	p.drain(t)
	if _, err := os.Stat(path); err == nil {
		t.Error("the socket is left behind")
	}
	// a socket that a killed proxy left behind is no obstacle
	p = startProxy(t, "--dev", "--listen", path)
	p.kill()
	p = startProxy(t, "--dev", "--listen", path)
	connect(t, path).want(t, "PONG", "PING")
}

// Beyond loopback only with a password, or when told to.
func TestProtectedMode(t *testing.T) {
	t.Parallel()
	refused := startProcess(t, binary(t), "--dev", "--listen", "0.0.0.0:0", "--admin", "127.0.0.1:0")
	if code := refused.wait(patience); code != 2 || !strings.Contains(refused.log.String(), "requirepass") {
		t.Errorf("exit code %d:\n%s", code, refused.log)
	}
	for _, args := range [][]string{{"--protected-mode", "no"}, {"--requirepass", "secret"}} {
		p := startProxy(t, append([]string{"--dev", "--listen", "0.0.0.0:0"}, args...)...)
		_, port, err := net.SplitHostPort(p.addr)
		if err != nil {
			t.Fatal(err)
		}
		if v := connect(t, "127.0.0.1:"+port).call(t, "PING"); v.text != "PONG" && !v.isError("NOAUTH") {
			t.Errorf("%v: %s", args, v)
		}
	}
}
