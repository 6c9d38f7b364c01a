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
}

// ReadCerts reads the files that the settings name, but no half of a pair. Its errors name the setting. A
// listener with no certificate has no TLS, whatever its CA is: settings.check refuses that.
func ReadCerts(v *settings.Values) (Certs, error) {
	var c Certs
	var ofClients, ofUpstream, ofAdmin error
	if v.TLS.Pair() {
		c.Clients, ofClients = newTLSFiles("tls", v.TLS, func(c *tls.Config, ca *x509.CertPool) {
			lets(c, ca, tls.RequireAndVerifyClientCert)
		})
	}
	if v.Admin.TLS.Pair() {
		c.Admin, ofAdmin = newTLSFiles("admin-tls", v.Admin.TLS, func(c *tls.Config, ca *x509.CertPool) {
			lets(c, ca, tls.VerifyClientCertIfGiven) // probes show none, and a gate looks at the others
			c.NextProtos = []string{"http/1.1"}
		})
	}
	if to := v.UpstreamTLS; to.On {
		c.Upstream, ofUpstream = newTLSFiles("upstream-tls", to.PEM, func(c *tls.Config, ca *x509.CertPool) {
			c.RootCAs, c.ServerName = ca, to.ServerName
		})
	}
	return c, errors.Join(ofClients, ofUpstream, ofAdmin)
}

// lets has a listener ask those who connect for a certificate of ca, if there is one.
func lets(c *tls.Config, ca *x509.CertPool, auth tls.ClientAuthType) {
	if ca != nil {
		c.ClientCAs, c.ClientAuth = ca, auth
	}
}

// all are those that there are.
func (c Certs) all() []*TLS {
	var there []*TLS
	for _, f := range []*TLS{c.Clients, c.Upstream, c.Admin} {
		if f != nil {
			there = append(there, f)
		}
	}
	return there
}

// readPair reads a certificate with its key. Errors name the settings and both files.
func readPair(certName, certFile, keyName, keyFile string) (tls.Certificate, error) {
	cert, wrongCert := readText(certName, certFile)
	key, wrongKey := readText(keyName, keyFile)
	if err := errors.Join(wrongCert, wrongKey); err != nil {
		return tls.Certificate{}, err
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("%s %s and %s %s: need a certificate and its key, as PEM: %w",
			certName, certFile, keyName, keyFile, err)
	}
	return pair, nil
}

// readPool reads authorities. A file without any is an error: it would trust nobody.
func readPool(name, file string) (*x509.CertPool, error) {
	text, err := readText(name, file)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s %s: needs certificates, as PEM, and has none", name, file)
	}
	return pool, nil
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
