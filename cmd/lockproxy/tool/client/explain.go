package client

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"
)

// explained is an error in words that say what to do about it. For Code it is still the one that it was.
type explained struct {
	text string
	err  error
}

func (e *explained) Error() string { return e.text }

func (e *explained) Unwrap() error { return e.err }

// Explain says what err most likely means, if the first command over a connection has ended with it: that
// somebody else is at that address. An answer of a server that knows no locks is not repeated, for it has the
// words of the command, and so the token. Other errors come back as they are.
func (o *Options) Explain(err error) error {
	if err == nil {
		return nil
	}
	text, answered := Reply(err)
	if command, unknown := strings.CutPrefix(text, "ERR unknown command "); unknown {
		// Redis goes on with the arguments, which have the token.
		command, _, _ = strings.Cut(command, ",")
		return &explained{fmt.Sprintf("no lockproxy answers at %s, but a Redis or Valkey: it does not "+
			"know %s", o.Addr, strings.Trim(command, "'`\"")), err}
	}
	if answered {
		return err
	}
	var noTLS tls.RecordHeaderError
	switch text = err.Error(); {
	case errors.As(err, &noTLS):
		text += ": is it there without --tls?"
	// the framer shows how a reply begins that is none
	case strings.Contains(text, `"HTTP/`):
		text = "whoever is there speaks HTTP: it is no port for Redis"
	case !o.TLS && (closed(err) || strings.Contains(text, `"\x15\x03`)): // an alert of TLS
		text = "the connection ends without an answer: does it want --tls?"
	default:
		return err
	}
	return &explained{text, err}
}

// closed says that the other side has ended the connection.
func closed(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}
