package cluster

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"syscall"

	"lockproxy/internal/resp"
)

// NodeError is what went wrong with one node. Its text is for operators; clients get PublicText.
type NodeError struct {
	Addr string
	Err  error
}

func (e NodeError) Error() string { return "cluster: node " + e.Addr + ": " + Explain(e.Err) }
func (e NodeError) Unwrap() error { return e.Err }

// DiscoverError says why each node that was tried could not be used, and what may help.
type DiscoverError struct{ Failed []NodeError }

func (e *DiscoverError) Error() string {
	text := "cluster: no upstream node can be used"
	for i, f := range e.Failed {
		text += [...]string{": ", "; "}[min(i, 1)] + f.Addr + ": " + Explain(f.Err)
	}
	return text
}

// Unwrap gives the errors of the nodes. So errors.Is and errors.As look into all of them.
func (e *DiscoverError) Unwrap() []error {
	all := make([]error, len(e.Failed))
	for i, f := range e.Failed {
		all[i] = f.Err
	}
	return all
}

// Reasons are those of a DiscoverError, each once, without where the nodes are; of another error its text. It
// is for those who may not know where the nodes are.
func Reasons(err error) string {
	e, ok := errors.AsType[*DiscoverError](err)
	if !ok {
		return PublicText(err)
	}
	var all []string
	for _, f := range e.Failed {
		if text := publicText(Explain(f.Err), f.Err); !slices.Contains(all, text) {
			all = append(all, text)
		}
	}
	return strings.Join(all, "; ")
}

// Final says that trying again cannot help, because every node answered and refused.
func (e *DiscoverError) Final() bool {
	mayPass := func(f NodeError) bool { return !RefusesLogin(f.Err.Error()) && !isA[Refusal](f.Err) }
	return len(e.Failed) > 0 && !slices.ContainsFunc(e.Failed, mayPass)
}

// Refusal is a reason for not using a node that lasts until somebody changes the settings.
type Refusal string

func (r Refusal) Error() string { return string(r) }

// RefusesLogin says that an error of Redis means a wrong user or password. Before Redis 6 there was no
// WRONGPASS.
func RefusesLogin(text string) bool {
	signs := []string{
		"WRONGPASS", "NOAUTH", "ERR invalid password", "without any password configured", "Client sent AUTH",
	}
	return slices.ContainsFunc(signs, func(sign string) bool { return strings.Contains(text, sign) })
}

// lacks is the rule of an ACL that allows what an error denies, "+config|get", and "" if the error does not
// name it: "NOPERM this user has no permissions to run the 'config|get' command".
func lacks(text string) string {
	_, rest, _ := strings.Cut(text, "NOPERM")
	_, rest, _ = strings.Cut(rest, "to run the '")
	if name, _, ok := strings.Cut(rest, "' command"); ok {
		return "+" + name
	}
	return ""
}

// Explain is the text of err and, in parentheses, what may help.
func Explain(err error) string {
	// what go-redis puts in front
	text := strings.TrimPrefix(err.Error(), "failed to authenticate: ")
	if hint := hintFor(err); hint != "" {
		text += " (" + hint + ")"
	}
	return text
}

// isA says that err is an E, or wraps one.
func isA[E error](err error) bool {
	_, is := errors.AsType[E](err)
	return is
}

// hintFor is what may help against err, "" if nothing is known. It goes by the texts of Redis, and by the
// types of Go where there is one. The first case that fits counts, so what is special comes first.
func hintFor(err error) string {
	text := err.Error()
	cert, _ := errors.AsType[x509.CertificateInvalidError](err)
	// Bytes that are no RESP: the first of them tell of what is there.
	alien := errors.Is(err, resp.ErrReply) || strings.Contains(text, "redis: can't parse") ||
		strings.Contains(text, "is not Redis")
	switch {
	case alien && (strings.Contains(text, "HTTP/") || strings.Contains(text, "<")):
		return "an HTTP server answers there, and no Redis: is the port right?"
	case alien:
		return "what answers there is no Redis: is the port right?"
	case strings.Contains(text, "WRONGPASS"), strings.Contains(text, "ERR invalid password"):
		return "check the upstream's user and password"
	case strings.Contains(text, "NOAUTH"):
		return "the node wants a password: set the upstream's user and password"
	case strings.Contains(text, "without any password configured"),
		strings.Contains(text, "Client sent AUTH"):
		return "the node has no password: leave the upstream's password away"
	case lacks(text) != "":
		return "the upstream's user needs " + lacks(text)
	case strings.Contains(text, "max number of clients"):
		return "raise maxclients of the node, or find out who keeps so many connections (CLIENT LIST)"
	case strings.Contains(text, "DENIED"):
		return "the node is in protected mode: give it a password"
	case isA[tls.RecordHeaderError](err):
		return "the node does not speak TLS there: is it the plain port?"
	case isA[x509.UnknownAuthorityError](err):
		return "the certificate of the node is not trusted: check the CA"
	case isA[x509.HostnameError](err):
		return "the certificate of the node is for another name"
	case cert.Reason == x509.Expired:
		return "renew the certificate of the node, or set the clock of this machine"
	case strings.Contains(text, "expired certificate"):
		return "renew the proxy's own certificate: the node refuses it"
	case strings.Contains(text, "certificate required"), strings.Contains(text, "bad certificate"):
		return "the node wants a client certificate"
	case isA[*net.DNSError](err):
		return "check the name"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "is Redis running there, and is the port right?"
	case errors.Is(err, syscall.ENOENT):
		return "there is no such socket: is Redis running, and is the path right?"
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		return "the node did not answer in time: is it stopped, behind a firewall, or without TLS where " +
			"TLS is set?"
	case errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET):
		return "the node closed the connection: does it expect TLS, or a client certificate, or has it as " +
			"many clients as its maxclients?"
	}
	return ""
}
