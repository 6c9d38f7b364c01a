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

// Certs are the TLS configurations of both sides and of the admin listener, nil where there is no TLS.
type Certs struct {
	Clients  *TLS
	Upstream *TLS
	Admin    *TLS
}

// ReadCerts reads the files that the settings name, but no half of a pair. Its errors name the setting.
func ReadCerts(v *settings.Values) (Certs, error) {
	var c Certs
	var ofClients, ofUpstream, ofAdmin error
	if v.TLSCert != "" && v.TLSKey != "" {
		c.Clients, ofClients = newTLSFiles("tls", clientsTLS, v, v.TLSCert, v.TLSKey, v.TLSCA)
	}
	if v.AdminTLSCert != "" && v.AdminTLSKey != "" {
		c.Admin, ofAdmin = newTLSFiles("admin-tls", adminTLS, v, v.AdminTLSCert, v.AdminTLSKey, v.AdminTLSCA)
	}
	if v.UpstreamTLS {
		files := []string{v.UpstreamTLSCert, v.UpstreamTLSKey, v.UpstreamTLSCA}
		c.Upstream, ofUpstream = newTLSFiles("upstream-tls", upstreamTLS, v, files...)
	}
	return c, errors.Join(ofClients, ofUpstream, ofAdmin)
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

func clientsTLS(v *settings.Values) (*tls.Config, error) {
	return serverTLS("", v.TLSCert, v.TLSKey, v.TLSCA, tls.RequireAndVerifyClientCert)
}

// adminTLS lets in who shows no certificate, for the probes: a gate looks at the others.
func adminTLS(v *settings.Values) (*tls.Config, error) {
	c, err := serverTLS("admin-", v.AdminTLSCert, v.AdminTLSKey, v.AdminTLSCA, tls.VerifyClientCertIfGiven)
	if err != nil {
		return nil, err
	}
	c.NextProtos = []string{"http/1.1"}
	return c, nil
}

// serverTLS is for a listener whose settings begin with prefix. auth is what is asked of those who connect
// if there is a ca.
func serverTLS(prefix, cert, key, ca string, auth tls.ClientAuthType) (*tls.Config, error) {
	pair, wrongPair := readPair(prefix+"tls-cert", cert, prefix+"tls-key", key)
	c := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}}
	var wrongCA error
	if ca != "" {
		c.ClientCAs, wrongCA = readPool(prefix+"tls-ca", ca)
		c.ClientAuth = auth
	}
	return c, errors.Join(wrongPair, wrongCA)
}

func upstreamTLS(v *settings.Values) (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: v.UpstreamTLSServerName}
	var wrongPair, wrongCA error
	if v.UpstreamTLSCA != "" {
		c.RootCAs, wrongCA = readPool("upstream-tls-ca", v.UpstreamTLSCA)
	}
	if v.UpstreamTLSCert != "" && v.UpstreamTLSKey != "" {
		var pair tls.Certificate
		pair, wrongPair = readPair("upstream-tls-cert", v.UpstreamTLSCert,
			"upstream-tls-key", v.UpstreamTLSKey)
		c.Certificates = []tls.Certificate{pair}
	}
	return c, errors.Join(wrongPair, wrongCA)
}

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

func readText(name, file string) ([]byte, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", name, file, errors.Unwrap(err))
	}
	return text, nil
}
