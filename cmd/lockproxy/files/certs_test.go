package files

import (
	"bytes"
	"crypto/tls"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"lockproxy/cmd/lockproxy/settings"
	"lockproxy/integration/rig"
)

// newCertificate writes a certificate for 127.0.0.1 that is its own authority.
func newCertificate(t *testing.T) (cert, key string) {
	a := &rig.Authority{Dir: t.TempDir()}
	a.Issue(t, "own", rig.LoopbackIP)
	return a.File("own.crt"), a.File("own.key")
}

// Both sides of the settings meet: a client with our upstream's settings and a
// server with our clients' settings.
func TestCertsShakeHands(t *testing.T) {
	cert, key := newCertificate(t)
	pem := settings.PEM{Cert: cert, Key: key, CA: cert}
	v := &settings.Values{TLS: pem}
	v.UpstreamTLS.On, v.UpstreamTLS.PEM, v.UpstreamTLS.ServerName = true, pem, "127.0.0.1"
	c, err := ReadCerts(v)
	if err != nil {
		t.Fatal(err)
	}
	anonymous := c.Upstream.Config().Clone()
	anonymous.Certificates = nil
	for name, test := range map[string]struct {
		client *tls.Config
		ok     bool
	}{"with a certificate": {c.Upstream.Config(), true}, "without one": {anonymous, false}} {
		near, far := net.Pipe()
		served := make(chan error, 1)
		go func() { served <- tls.Server(far, c.Clients.Config()).Handshake(); far.Close() }()
		go func() { // reads on, so that the server can say why it refuses
			client := tls.Client(near, test.client)
			client.Handshake()
			client.Read(make([]byte, 1))
		}()
		if err := <-served; (err == nil) != test.ok {
			t.Errorf("a client %s: %v", name, err)
		}
		near.Close()
	}
}

func TestCertErrors(t *testing.T) {
	cert, key := newCertificate(t)
	empty := filepath.Join(t.TempDir(), "empty.pem")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string]string{
		"--tls-cert /nowhere --tls-key " +
			key: "tls-cert /nowhere: no such file or directory",
		"--tls-cert " + cert + " --tls-key " + cert: "tls-cert " + cert +
			" and tls-key " + cert + ": need a certificate and its key",
		"--tls-cert " + cert + " --tls-key " + key + " --tls-ca " + empty: "tls-ca " + empty +
			": needs certificates",
		"--upstream-tls --upstream-tls-ca /nowhere": "upstream-tls-ca /nowhere: no " +
			"such file",
	} {
		v, err := settings.Sources{Args: strings.Fields(args)}.Load()
		if err != nil {
			t.Fatal(err)
		}
		if _, err = ReadCerts(v); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v", args, err)
		}
	}
}

// TestTLSFilesAreReread proves that changed files are taken over, and that files which cannot be used are
// told once and change nothing.
func TestTLSFilesAreReread(t *testing.T) {
	cert, key := newCertificate(t)
	newCert, newKey := newCertificate(t)
	c, err := ReadCerts(&settings.Values{TLS: settings.PEM{Cert: cert, Key: key, CA: cert}})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	log := slog.New(slog.NewTextHandler(&out, nil))
	reread := func(wantNew bool, wantLog string) {
		t.Helper()
		before := c.Clients.Config()
		out.Reset()
		c.Clients.rereadChanged(log)
		if isNew := c.Clients.Config() != before; isNew != wantNew {
			t.Errorf("another configuration: %v", isNew)
		}
		if wantLog == "" && out.Len() > 0 || !strings.Contains(out.String(), wantLog) {
			t.Errorf("log %q, want %q", out.String(), wantLog)
		}
	}
	place := func(from, to string) {
		t.Helper()
		text, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(to, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	reread(false, "")
	old := c.Clients.Config()
	place(newCert, cert) // its key is still to come
	reread(false, "level=ERROR")
	reread(false, "")
	place(newKey, key)
	reread(true, "reread\" files=\"["+cert+" "+key+" "+cert+"]\"")
	now := c.Clients.Config()
	if bytes.Equal(old.Certificates[0].Certificate[0], now.Certificates[0].Certificate[0]) ||
		old.ClientCAs.Equal(now.ClientCAs) {
		t.Error("the certificates are the old ones")
	}
	if err := os.Remove(key); err != nil {
		t.Fatal(err)
	}
	reread(false, "level=ERROR")
	reread(false, "")
	if err := os.WriteFile(cert, []byte("nonsense"), 0o600); err != nil {
		t.Fatal(err)
	}
	reread(false, "level=ERROR")
	if c.Clients.Config() != now {
		t.Error("what was read before is not in use")
	}
	state := c.States()[0]
	for _, name := range []string{"tls-cert", "tls-ca"} {
		if left := time.Until(state.Ends[name]); left <= 0 || left > time.Hour {
			t.Errorf("%s ends in %v", name, left)
		}
	}
	if state.Of != "tls" || !state.Failed {
		t.Errorf("with files that cannot be used: %+v", state)
	}
	place(newCert, cert)
	place(newKey, key)
	c.Clients.files.CA = "" // no authority
	reread(true, "reread\" files=\"["+cert+" "+key+"]\"")
	if c.States()[0].Failed {
		t.Error("good files are told as bad ones")
	}
}
