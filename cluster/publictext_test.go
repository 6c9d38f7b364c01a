package cluster

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
)

// Errors for clients say what is wrong and not where.
func TestDiscreet(t *testing.T) {
	at := &net.TCPAddr{IP: net.IPv4(10, 0, 0, 7), Port: 6379}
	refused := &net.OpError{Op: "dial", Net: "tcp", Addr: at,
		Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	reset := &net.OpError{Op: "read", Net: "tcp", Source: at, Addr: at,
		Err: os.NewSyscallError("read", syscall.ECONNRESET)}
	for _, test := range []struct {
		err  error
		want string
	}{
		{errors.New("plain"), "plain"},
		{NodeError{"10.0.0.7:6379", refused},
			"connect: connection refused (is Redis running there, and is the port right?)"},
		{fmt.Errorf("no node took it in time: %w: %w", ErrUnavailable,
			NodeError{"10.0.0.7:6379", errors.New("WRONGPASS no")}),
			"no node took it in time: the command was not run: WRONGPASS no (check the upstream's user and " +
				"password)"},
		{fmt.Errorf("%w: %w", ErrUnknownOutcome, reset),
			"the connection was lost after the command was sent: it may or may not have run: read: " +
				"connection reset by peer"},
		{fmt.Errorf("%w: %w", ErrUnknownOutcome, io.EOF),
			"the connection was lost after the command was sent: it may or may not have run: EOF"},
		{fmt.Errorf("cluster: subscribe: %w", &DiscoverError{[]NodeError{{"10.0.0.7:6379", refused}}}),
			"cluster: subscribe: no upstream node can be used"},
		{NodeError{"redis-1.internal:6379", &net.DNSError{Err: "no such host", Name: "redis-1.internal",
			Server: "10.0.0.53:53"}}, "its name is not known (check the name)"},
		{NodeError{"10.0.0.7:6379", fmt.Errorf("TLS: %w",
			&tls.CertificateVerificationError{Err: x509.HostnameError{Host: "10.0.0.7",
				Certificate: &x509.Certificate{}}})},
			"TLS: its certificate is not accepted (the certificate of the node is for another name)"},
		{NodeError{"10.0.0.7:6379", context.DeadlineExceeded},
			"context deadline exceeded (the node did not answer in time: is it stopped, behind a firewall, " +
				"or without TLS where TLS is set?)"},
	} {
		if got := PublicText(test.err); got != test.want {
			t.Errorf("%v:\n got %s\nwant %s", test.err, got, test.want)
		}
	}
}
