package cluster

import (
	"crypto/tls"
	"net"
	"strings"
)

// Discreet is the text of err for clients, who are not told where the nodes of the upstream are: the
// addresses that are known to be in it are left out.
func Discreet(err error) string {
	return discreet(err.Error(), err)
}

func discreet(text string, err error) string {
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
			text = discreet(text, inner)
		}
	case interface{ Unwrap() []error }:
		for _, inner := range e.Unwrap() {
			text = discreet(text, inner)
		}
	}
	return text
}
