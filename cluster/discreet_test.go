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
	"reflect"
	"syscall"
	"testing"

	"lockproxy/internal/resp"
)

// Errors for clients say what is wrong and not where.
func TestDiscreet(t *testing.T) {
	at := &net.TCPAddr{IP: net.IPv4(10, 0, 0, 7), Port: 6379}
	refused := &net.OpError{Op: "dial", Net: "tcp", Addr: at, Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	reset := &net.OpError{Op: "read", Net: "tcp", Source: at, Addr: at, Err: os.NewSyscallError("read", syscall.ECONNRESET)}
	for _, test := range []struct {
		err  error
		want string
	}{
		{errors.New("plain"), "plain"},
		{nodeError{"10.0.0.7:6379", refused}, "connect: connection refused (is Redis running there, and is the port right?)"},
		{fmt.Errorf("no node took it in time: %w: %w", ErrUnavailable, nodeError{"10.0.0.7:6379", errors.New("WRONGPASS no")}),
			"no node took it in time: the command was not run: WRONGPASS no (check the upstream's user and password)"},
		{fmt.Errorf("%w: %w", ErrUnknownOutcome, reset), "the connection was lost after the command was sent: it may or may not have run: read: connection reset by peer"},
		{fmt.Errorf("%w: %w", ErrUnknownOutcome, io.EOF), "the connection was lost after the command was sent: it may or may not have run: EOF"},
		{fmt.Errorf("cluster: subscribe: %w", &DiscoverError{[]nodeError{{"10.0.0.7:6379", refused}}}), "cluster: subscribe: no upstream node can be used"},
		{nodeError{"redis-1.internal:6379", &net.DNSError{Err: "no such host", Name: "redis-1.internal", Server: "10.0.0.53:53"}}, "its name is not known (check the name)"},
		{nodeError{"10.0.0.7:6379", fmt.Errorf("TLS: %w", &tls.CertificateVerificationError{Err: x509.HostnameError{Host: "10.0.0.7", Certificate: &x509.Certificate{}}})},
			"TLS: its certificate is not accepted (the certificate of the node is for another name)"},
		{nodeError{"10.0.0.7:6379", context.DeadlineExceeded}, "context deadline exceeded (the node did not answer in time: is it stopped, behind a firewall, or without TLS where TLS is set?)"},
	} {
		if got := Discreet(test.err); got != test.want {
			t.Errorf("%v:\n got %s\nwant %s", test.err, got, test.want)
		}
	}
}

func TestParseMembers(t *testing.T) {
	text := "a 10.0.0.1:6379@16379,one.example,shard-id=f myself,master - 0 0 1 connected 0-16383\n" +
		"b 10.0.0.2:6379@16379 master - 0 0 2 connected\n" +
		"c ::1:7000@17000 slave a 0 0 2 connected\n" +
		"d :0@0 master,fail,noaddr - 0 0 3 disconnected\n" +
		"e 10.0.0.9:6379@16379 handshake - 0 0 0 connected\n" +
		"f :6380 myself,master - 0 0 1 connected\n" +
		"nonsense\n\n"
	want := map[string]bool{"10.0.0.1:6379": true, "one.example:6379": true, "10.0.0.2:6379": true, "[::1]:7000": true, "10.0.0.3:6380": true}
	v := resp.Value{Kind: '$', Str: []byte(text)}
	if got := parseMembers(v, "10.0.0.3:6379"); !reflect.DeepEqual(got, want) {
		t.Errorf("%v", got)
	}
}
