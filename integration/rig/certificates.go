package rig

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

// Authority makes certificates for a test, as PEM files in a directory of its own.
type Authority struct {
	Dir   string
	Cert  *x509.Certificate
	Until time.Time // when those of Issue end; zero: in an hour
	key   *ecdsa.PrivateKey
	next  int64
}

// NewAuthority makes an authority with a certificate of its own.
func NewAuthority(t *testing.T) *Authority {
	t.Helper()
	a := &Authority{Dir: t.TempDir()}
	a.Cert, a.key = a.Issue(t, "ca", nil)
	return a
}

// File is the path of name's certificate ("ca.crt") or key ("server.key").
func (a *Authority) File(name string) string { return filepath.Join(a.Dir, name) }

// Issue makes name.crt and name.key, signed by the authority; itself if it has none yet.
func (a *Authority) Issue(t *testing.T, name string, ips []net.IP) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	a.next++
	template := &x509.Certificate{
		SerialNumber: big.NewInt(a.next), Subject: pkix.Name{CommonName: name}, IPAddresses: ips,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: a.Until,
		IsCA: a.Cert == nil, BasicConstraintsValid: true,
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	if a.Until.IsZero() {
		template.NotAfter = time.Now().Add(time.Hour)
	}
	parent, signer := a.Cert, a.key
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
		if err := os.WriteFile(a.File(file), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cert, key
}

// LoopbackIP is the address of all servers of tests.
var LoopbackIP = []net.IP{net.IPv4(127, 0, 0, 1)}

// LaunchTLSRedis starts a Redis that speaks only TLS and wants certificates.
func LaunchTLSRedis(t *testing.T, a *Authority) (addr string) {
	t.Helper()
	s := newRedis(t)
	s.With("--port", "0", "--tls-port", strconv.Itoa(s.Port), "--tls-cert-file", a.File("server.crt"),
		"--tls-key-file", a.File("server.key"), "--tls-ca-cert-file", a.File("ca.crt"))
	s.launch(t)
	s.Await(t, "listening for TLS", func() bool { return Listens(s.Addr) })
	return s.Addr
}
