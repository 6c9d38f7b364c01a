package main

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"lockproxy/cmd/lockproxy/settings"
)

// selfSigned writes a certificate for 127.0.0.1 that is its own authority.
func selfSigned(t *testing.T) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "lockproxy test"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write := func(name, kind string, der []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}),
			0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	return write("cert.pem", "CERTIFICATE", der), write("key.pem", "PRIVATE KEY", pkcs8)
}

// Both sides of the settings meet: a client with our upstream's settings and a
// server with our clients' settings.
func TestCertsShakeHands(t *testing.T) {
	cert, key := selfSigned(t)
	v := &settings.Values{
		TLSCert: cert, TLSKey: key, TLSCA: cert,
		UpstreamTLS: true, UpstreamTLSCA: cert, UpstreamTLSCert: cert, UpstreamTLSKey: key,
		UpstreamTLSServerName: "127.0.0.1",
	}
	c, err := loadCerts(v)
	if err != nil {
		t.Fatal(err)
	}
	anonymous := c.upstream.config().Clone()
	anonymous.Certificates = nil
	for name, test := range map[string]struct {
		client *tls.Config
		ok     bool
	}{"with a certificate": {c.upstream.config(), true}, "without one": {anonymous, false}} {
		near, far := net.Pipe()
		served := make(chan error, 1)
		go func() { served <- tls.Server(far, c.clients.config()).Handshake(); far.Close() }()
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
	cert, key := selfSigned(t)
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
		var stdout, stderr bytes.Buffer
		dev := "--dev"
		if strings.Contains(args, "upstream") {
			dev = "--upstream=127.0.0.1:1"
		}
		code := realMain(append(strings.Fields(args), dev), nil, nil, &stdout, &stderr)
		if code != exitUsage || !strings.HasPrefix(stderr.String(), "lockproxy: "+want) {
			t.Errorf("%s: %d %s", args, code, &stderr)
		}
	}
}

// TestTLSFilesAreReread proves that changed files are taken over, and that files which cannot be used are
// told once and change nothing.
func TestTLSFilesAreReread(t *testing.T) {
	cert, key := selfSigned(t)
	newCert, newKey := selfSigned(t)
	c, err := loadCerts(&settings.Values{TLSCert: cert, TLSKey: key, TLSCA: cert})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	log := newLogger(settings.NewConfig(settings.Defaults()), &out)
	reread := func(wantNew bool, wantLog string) {
		t.Helper()
		before := c.clients.config()
		out.Reset()
		c.clients.reread(log)
		if isNew := c.clients.config() != before; isNew != wantNew {
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
	old := c.clients.config()
	place(newCert, cert) // its key is still to come
	reread(false, "level=ERROR")
	reread(false, "")
	place(newKey, key)
	reread(true, "reread\" files=\"["+cert+" "+key+" "+cert+"]\"")
	now := c.clients.config()
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
	if c.clients.config() != now {
		t.Error("what was read before is not in use")
	}
	show := func() string {
		t.Helper()
		p := newProgram(settings.NewConfig(settings.Defaults()), c, io.Discard)
		_, body := fetch(adminInside(&p.state, false, reloads{p}), "/metrics")
		return body
	}
	for _, want := range []string{`lockproxy_reload_success{of="tls"} 0`,
		`lockproxy_reload_success{of="settings"} 1`,
		`lockproxy_certificate_remaining_seconds{setting="tls-cert"} 3`, // an hour, of which some is over
		`lockproxy_certificate_remaining_seconds{setting="tls-ca"} 3`} {
		if got := show(); !strings.Contains(got, "\n"+want) {
			t.Errorf("no metric %s in\n%s", want, got)
		}
	}
	place(newCert, cert)
	place(newKey, key)
	c.clients.files[2] = "" // no authority
	reread(true, "reread\" files=\"["+cert+" "+key+"]\"")
	if got := show(); !strings.Contains(got, `lockproxy_reload_success{of="tls"} 1`) {
		t.Errorf("with good files again:\n%s", got)
	}
}
