// Package files has what the settings name by file or command, and what is read again while the proxy runs:
// certificates (Certs, TLS), passwords (Passwords), addresses of nodes (LiveDetours). What cannot be used is
// logged, and what was read before stays in use.
package files

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"

	"lockproxy/cmd/lockproxy/settings"
)

// Certs are the TLS configurations of both sides and of the admin listener, nil where there is no TLS. They
// are read once here; Watch replaces what is in them, and not the pointers.
type Certs struct {
	Clients  *TLS
	Upstream *TLS
	Admin    *TLS
	all      []*TLS // those that there are
}

// ReadCerts reads the files that the settings name. Its errors name the setting. A listener with no
// certificate has no TLS, whatever its CA is: settings.check refuses that.
func ReadCerts(v *settings.Values) (Certs, error) {
	var c Certs
	var wrong []error
	read := func(name string, files settings.PEM, finish func(c *tls.Config, ca *x509.CertPool)) *TLS {
		f, err := newTLSFiles(name, files, finish)
		c.all, wrong = append(c.all, f), append(wrong, err)
		return f
	}
	if v.TLS.Pair() {
		c.Clients = read("tls", v.TLS, func(c *tls.Config, ca *x509.CertPool) {
			lets(c, ca, tls.RequireAndVerifyClientCert)
		})
	}
	if to := v.UpstreamTLS; to.On {
		c.Upstream = read("upstream-tls", to.PEM, func(c *tls.Config, ca *x509.CertPool) {
			c.RootCAs, c.ServerName = ca, to.ServerName
		})
	}
	if v.Admin.TLS.Pair() {
		c.Admin = read("admin-tls", v.Admin.TLS, func(c *tls.Config, ca *x509.CertPool) {
			lets(c, ca, tls.VerifyClientCertIfGiven) // probes show none, and a gate looks at the others
			c.NextProtos = []string{"http/1.1"}
		})
	}
	return c, errors.Join(wrong...)
}

// lets has a listener ask those who connect for a certificate of ca, if there is one.
func lets(c *tls.Config, ca *x509.CertPool, auth tls.ClientAuthType) {
	if ca != nil {
		c.ClientCAs, c.ClientAuth = ca, auth
	}
}

// readText reads a file, whose setting is called name.
func readText(name, file string) ([]byte, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		// Unwrapped, because os.PathError would name the file a second time.
		return nil, fmt.Errorf("%s %s: %w", name, file, errors.Unwrap(err))
	}
	return text, nil
}
