package cluster

import (
	"crypto/tls"
	"net"
	"strings"
)

// PublicText is the text of err for clients. They are not told where the nodes of the upstream are, so the
// addresses that err is known to contain are left out.
func PublicText(err error) string {
	return publicText(err.Error(), err)
}

// publicText takes out of text what err, and all errors that it wraps, have put in: each type of error is
// known to print its address in one way.
func publicText(text string, err error) string {
	switch e := err.(type) {
	case NodeError:
		text = strings.ReplaceAll(text, "cluster: node "+e.Addr+": ", "")
	case *DiscoverError:
		return strings.ReplaceAll(text, e.Error(), "no upstream node can be used")
	case *net.OpError:
		text = strings.ReplaceAll(text, e.Error(), e.Err.Error())
	case *net.DNSError:
		return strings.ReplaceAll(text, e.Error(), "its name is not known")
	case *tls.CertificateVerificationError:
		return strings.ReplaceAll(text, e.Error(), "its certificate is not accepted")
	}
	switch e := err.(type) {
	case interface{ Unwrap() error }:
		if inner := e.Unwrap(); inner != nil {
			text = publicText(text, inner)
		}
	case interface{ Unwrap() []error }:
		for _, inner := range e.Unwrap() {
			text = publicText(text, inner)
		}
	}
	return text
}
