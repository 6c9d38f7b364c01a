package transcripts

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lockproxy/integration/rig"
)

// TLS on both sides, with certificates of clients.
func TestTLS(t *testing.T) {
	t.Parallel()
	a := rig.NewAuthority(t)
	a.Issue(t, "server", rig.LoopbackIP)
	a.Issue(t, "client", nil)
	upstream := rig.LaunchTLSRedis(t, a)
	p := rig.StartProxy(t, "--upstream", upstream, "--upstream-tls", "yes", "--upstream-tls-ca",
		a.File("ca.crt"),
		"--upstream-tls-cert", a.File("client.crt"), "--upstream-tls-key", a.File("client.key"),
		"--tls-cert", a.File("server.crt"), "--tls-key", a.File("server.key"), "--tls-ca", a.File("ca.crt"))

	pool := x509.NewCertPool()
	pool.AddCert(a.Cert)
	pair, err := tls.LoadX509KeyPair(a.File("client.crt"), a.File("client.key"))
	if err != nil {
		t.Fatal(err)
	}
	raw, err := tls.Dial("tcp", p.Addr, &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{pair}})
	if err != nil {
		t.Fatal(err)
	}
	c := rig.NewConn(raw)
	c.Must(t, "LOCK", "warm", "WAIT", "60000", "PX", "60000")
	before := p.Usage(t) // with one client
	c.Want(t, "OK", "SET", "tls", strings.Repeat("x", 1<<20))
	if v := c.Must(t, "GET", "tls"); len(v.Text) != 1<<20 {
		t.Errorf("GET of 1 MB: %d bytes", len(v.Text))
	}
	if v := c.Must(t, "LOCK", "tls", "PX", "60000"); len(v.Elems) != 4 {
		t.Errorf("LOCK: %s", v)
	}
	waiter, err := tls.Dial("tcp", p.Addr, &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{pair}})
	if err != nil {
		t.Fatal(err)
	}
	waiter.Write(rig.Encode("LOCK", "tls", "WAIT", "60000"))
	rig.Eventually(t, rig.Patience, "it waits", func() bool {
		return c.Must(t, "LOCKCTL", "INFO",
			"tls").Field("waiters").Int() == 1
	})
	waiter.Close()
	rig.Eventually(t, rig.Patience, "it has left",
		func() bool { return c.Must(t, "LOCKCTL", "INFO", "tls").Field("waiters").Int() == 0 })
	c.Close()

	cli := []string{"--tls", "--cacert", a.File("ca.crt")}
	with := append(cli, "--cert", a.File("client.crt"), "--key", a.File("client.key"))
	out := rig.Tool(t, p.Addr, "", "redis-cli", append(with, "PING")...)
	if strings.TrimSpace(out) != "PONG" {
		t.Errorf("redis-cli with a certificate: %s", out)
	}
	if out := rig.Tool(t, p.Addr, "PING\n", "redis-cli", cli...); strings.Contains(out, "PONG") {
		t.Errorf("redis-cli without a certificate: %s", out)
	}
	plain := rig.Connect(t, p.Addr)
	plain.Send("PING")
	if !plain.Closed(rig.Patience) {
		t.Error("a client without TLS is not closed")
	}
	p.ReturnsTo(t, before)
}

func TestPassword(t *testing.T) {
	t.Parallel()
	upstream := rig.StartRedis(t, "--requirepass", "upstream secret")
	p := rig.StartProxy(t, "--upstream", upstream.Addr, "--upstream-password", "upstream secret",
		"--requirepass", "front secret")
	c := rig.Connect(t, p.Addr)
	const noauth = "(error) NOAUTH Authentication required."
	c.Want(t, noauth, "PING")
	c.Want(t, noauth, "GET", "k")
	c.Want(t, noauth, "LOCK", "job")
	c.Want(t, noauth, "COMMAND")
	c.Want(t, noauth, "CONFIG", "GET", "requirepass")
	const wrong = "(error) WRONGPASS invalid username-password pair or user is disabled."
	c.Want(t, wrong, "AUTH", "nonsense")
	c.Want(t, wrong, "AUTH", "default", "upstream secret")
	c.Want(t, wrong, "AUTH", "nobody", "front secret")
	c.Want(t, wrong, "HELLO", "3", "AUTH", "default", "nonsense")
	c.Want(t, noauth, "GET", "k")
	if v := c.Call(t, "HELLO", "3"); !v.IsError("NOAUTH") {
		t.Errorf("HELLO without a password: %s", v)
	}
	c.Want(t, "OK", "AUTH", "front secret")
	c.Want(t, "OK", "SET", "k", "v")
	c.Want(t, `"v"`, "GET", "k")
	c.Want(t, "RESET", "RESET")
	c.Want(t, noauth, "GET", "k")
	d := rig.Connect(t, p.Addr)
	if v := d.Must(t, "HELLO", "3", "AUTH", "default", "front secret", "SETNAME",
		"me"); v.Field("proto").Int() != 3 {
		t.Errorf("HELLO 3 AUTH: %s", v)
	}
	d.Want(t, `"me"`, "CLIENT", "GETNAME")
	d.Want(t, `"v"`, "GET", "k")
	d.Want(t, "OK", "CONFIG", "SET", "requirepass", "new secret")
	rig.Connect(t, p.Addr).Want(t, wrong, "AUTH", "front secret")
	rig.Connect(t, p.Addr).Want(t, "OK", "AUTH", "new secret")
	for _, secret := range []string{"front secret", "new secret", "upstream secret"} {
		if strings.Contains(p.Log.String(), secret) {
			t.Errorf("the log shows a password:\n%s", p.Log)
		}
	}
}

// The upstream's ACL user may have commands and keys of its own only: what it
// may not do comes back as Redis says it.
func TestUpstreamUser(t *testing.T) {
	t.Parallel()
	s := rig.StartRedis(t)
	s.Do(t, "ACL", "SETUSER", "app", "on", ">pw", "~app:*", "~lock:*", "&*", "+@all", "-keys")
	p := rig.StartProxy(t, "--upstream", s.Addr, "--upstream-user", "app", "--upstream-password", "pw")
	c := rig.Connect(t, p.Addr)
	c.Want(t, "OK", "SET", "app:k", "v")
	if v := c.Call(t, "SET", "other", "v"); !v.IsError("NOPERM") {
		t.Errorf("SET of a key that is not allowed: %s", v)
	}
	if v := c.Must(t, "LOCK", "job", "TOKEN", "t"); len(v.Elems) != 4 {
		t.Errorf("LOCK: %s", v)
	}
	c.Want(t, "(integer) 1", "UNLOCK", "job", "t")
	bad := rig.StartProcess(t, rig.Binary(t), "--listen", "127.0.0.1:0", "--admin",
		"127.0.0.1:0", "--upstream",
		s.Addr, "--upstream-user", "app", "--upstream-password", "no")
	rig.Eventually(t, rig.Patience, "the log says what is wrong",
		func() bool { return strings.Contains(bad.Log.String(), "WRONGPASS") })
	if strings.Contains(bad.Log.String(), "msg=listening") {
		t.Errorf("listens without an upstream it may use:\n%s", bad.Log)
	}
}

func TestUnixSocket(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "lockproxy.sock")
	p := rig.StartProxy(t, "--dev", "--listen", path+",127.0.0.1:0")
	p.Logged(t, `msg=listening addr=(127\.0\.0\.1:\d+)`)
	c := rig.Connect(t, path)
	c.Want(t, "OK", "SET", "k", "v")
	tcp := rig.Connect(t, p.Logged(t, `msg=listening addr=(127\.0\.0\.1:\d+)`))
	tcp.Want(t, `"v"`, "GET", "k")
	if v := c.Must(t, "LOCK", "job", "PX", "5000"); len(v.Elems) != 4 {
		t.Errorf("LOCK: %s", v)
	}
	tcp.Want(t, "(nil)", "LOCK", "job")
	c.Close()
	tcp.Close()
	p.Drain(t)
	if _, err := os.Stat(path); err == nil {
		t.Error("the socket is left behind")
	}
	// a socket that a killed proxy left behind is no obstacle
	p = rig.StartProxy(t, "--dev", "--listen", path)
	p.Kill()
	p = rig.StartProxy(t, "--dev", "--listen", path)
	rig.Connect(t, path).Want(t, "PONG", "PING")
}

// Beyond loopback only with a password, or when told to.
func TestProtectedMode(t *testing.T) {
	t.Parallel()
	refused := rig.StartProcess(t, rig.Binary(t), "--dev", "--listen", "0.0.0.0:0", "--admin", "127.0.0.1:0")
	if code := refused.Wait(rig.Patience); code != 2 ||
		!strings.Contains(refused.Log.String(), "requirepass") {
		t.Errorf("exit code %d:\n%s", code, refused.Log)
	}
	for _, args := range [][]string{{"--protected-mode", "no"}, {"--requirepass", "secret"}} {
		p := rig.StartProxy(t, append([]string{"--dev", "--listen", "0.0.0.0:0"}, args...)...)
		_, port, err := net.SplitHostPort(p.Addr)
		if err != nil {
			t.Fatal(err)
		}
		if v := rig.Connect(t, "127.0.0.1:"+port).Call(t, "PING"); v.Text != "PONG" && !v.IsError("NOAUTH") {
			t.Errorf("%v: %s", args, v)
		}
	}
}
