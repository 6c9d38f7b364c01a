package client

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"strings"

	"lockproxy/cmd/lockproxy/tool"
	"lockproxy/internal/resp"
)

// ErrProtocol is an answer that no lockproxy gives.
var ErrProtocol = errors.New("not the answer of a lockproxy")

// Code is the exit code for an error of a connection or of a command. Scripts tell by it whether trying again
// makes sense. What is not known is ExitUnavailable: most likely the network.
func Code(err error) int {
	if text, ok := Reply(err); ok {
		return replyCode(text)
	}
	var unverified *tls.CertificateVerificationError
	var authority x509.UnknownAuthorityError
	var alert tls.AlertError
	var noTLS tls.RecordHeaderError
	switch {
	case errors.As(err, &unverified), errors.As(err, &authority), errors.As(err, &alert):
		return tool.ExitDenied
	case errors.Is(err, ErrProtocol), errors.Is(err, resp.ErrReply), errors.Is(err, resp.ErrBounds),
		errors.As(err, &noTLS):
		return tool.ExitProtocol
	}
	return tool.ExitUnavailable
}

// Reply is the text of an error that the proxy has answered.
func Reply(err error) (text string, ok bool) {
	var answer ErrorReply
	ok = errors.As(err, &answer)
	return string(answer), ok
}

// replyCode is the exit code for an error reply, by its first word.
func replyCode(text string) int {
	word, _, _ := strings.Cut(text, " ")
	switch word {
	case "NOAUTH", "WRONGPASS", "NOPERM", "DENIED":
		return tool.ExitDenied
	case "LOCKTYPE", "PERMITS":
		return tool.ExitData
	case "LOADING", "TRYAGAIN", "CLUSTERDOWN", "QUEUEFULL", "NOREPLICAS", "NOQUORUM", "OOM", "MISCONF",
		"UNBLOCKED", "BUSY", "MASTERDOWN":
		return tool.ExitTemporary
	}
	if strings.HasPrefix(text, "ERR unknown command") {
		return tool.ExitProtocol
	}
	return tool.ExitSoftware
}
