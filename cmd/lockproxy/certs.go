package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
)

// certs are the TLS configurations of both sides, nil where there is no TLS.
type certs struct {
	clients  *tlsFiles
	upstream *tlsFiles
}

// loadCerts reads the files that the settings name. Its errors name the setting.
func loadCerts(v *Values) (certs, error) {
	var c certs
	var ofClients, ofUpstream error
	if v.TLSCert != "" {
		c.clients, ofClients = newTLSFiles(clientsTLS, v, v.TLSCert, v.TLSKey, v.TLSCA)
	}
	if v.UpstreamTLS {
		files := []string{v.UpstreamTLSCert, v.UpstreamTLSKey, v.UpstreamTLSCA}
		c.upstream, ofUpstream = newTLSFiles(upstreamTLS, v, files...)
	}
	return c, errors.Join(ofClients, ofUpstream)
}

func clientsTLS(v *Values) (*tls.Config, error) {
	pair, err := readPair("tls-cert", v.TLSCert, "tls-key", v.TLSKey)
	if err != nil {
		return nil, err
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}}
	if v.TLSCA != "" {
		if c.ClientCAs, err = readPool("tls-ca", v.TLSCA); err != nil {
			return nil, err
		}
		c.ClientAuth = tls.RequireAndVerifyClientCert
	}
	return c, nil
}

func upstreamTLS(v *Values) (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: v.UpstreamTLSServerName}
	var err error
	if v.UpstreamTLSCA != "" {
		if c.RootCAs, err = readPool("upstream-tls-ca", v.UpstreamTLSCA); err != nil {
			return nil, err
		}
	}
	if v.UpstreamTLSCert != "" {
		pair, err := readPair("upstream-tls-cert", v.UpstreamTLSCert, "upstream-tls-key", v.UpstreamTLSKey)
		if err != nil {
			return nil, err
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}

func readPair(certName, certFile, keyName, keyFile string) (tls.Certificate, error) {
	cert, err := readPEM(certName, certFile)
	if err != nil {
		return tls.Certificate{}, err
	}
	key, err := readPEM(keyName, keyFile)
	if err != nil {
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
	text, err := readPEM(name, file)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s %s: needs certificates, as PEM, and has none", name, file)
	}
	return pool, nil
}

func readPEM(name, file string) ([]byte, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", name, file, errors.Unwrap(err))
	}
	return text, nil
}
