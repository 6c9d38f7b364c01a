package client

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"strings"

	"lockproxy/internal/resp"
)

// bounds are those of what a proxy may answer: whoever is there may announce anything. A list of ten thousand
// locks with their holders is some megabytes.
var bounds = resp.Bounds{Bytes: 256 << 20, Values: 1 << 22, Depth: 32}

// ErrorReply is an error that the proxy has answered. It has no minus sign, and begins with its word: NOAUTH,
// LOCKLOST.
type ErrorReply string

// Error implements error.
func (a ErrorReply) Error() string { return string(a) }

// Conn is one connection to the proxy: what it takes with KEEPALIVE is kept for as long as it is open. It is
// used by one goroutine at a time; Close may come from any.
type Conn struct {
	sock    net.Conn
	replies resp.Reader
	broken  bool // no answer can come any more
}

// Over is a Conn over a connection that there is. Its bytes count from here: nothing may have been read of
// sock.
func Over(sock net.Conn) *Conn {
	sock = bounds.Conn(sock)
	return &Conn{sock: sock, replies: resp.Reader{From: sock, Most: bounds.Bytes}}
}

// Connect connects, logs in, and sees whether the proxy answers. The error is one that Code knows.
func (o *Options) Connect(ctx context.Context) (*Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, o.Timeout)
	defer cancel()
	sock, err := o.dialProxy(ctx)
	if err == nil {
		c := Over(sock)
		if err = o.greetProxy(ctx, c); err == nil {
			return c, nil
		}
		c.Close()
	}
	return nil, fmt.Errorf("%s: %w", o.Addr, o.Explain(err))
}

// dialProxy connects, with TLS if the options say so. ctx bounds the handshake as well.
func (o *Options) dialProxy(ctx context.Context) (net.Conn, error) {
	secure, err := o.tlsConfig()
	if err != nil {
		return nil, err
	}
	plain, err := new(net.Dialer).DialContext(ctx, o.network(), o.Addr)
	if err != nil || secure == nil {
		return plain, err
	}
	conn := tls.Client(plain, secure)
	if err := conn.HandshakeContext(ctx); err != nil {
		plain.Close()
		return nil, err
	}
	return conn, nil
}

// greetProxy logs in and asks for a sign of life. Also a user who may not PING gets one.
func (o *Options) greetProxy(ctx context.Context, c *Conn) error {
	if o.Password != "" {
		if _, err := c.Do(ctx, "AUTH", cmp.Or(o.User, "default"), o.Password); err != nil {
			return err
		}
	}
	_, err := c.Do(ctx, "PING")
	// an answer all the same: somebody is there who knows the user
	if text, _ := Reply(err); strings.HasPrefix(text, "NOPERM") {
		return nil
	}
	return err
}

// Do sends a command and returns the answer: nil for Null, int64, string, []any. It blocks until the answer
// comes, or ctx ends, which also breaks the connection: a late answer would be taken for that of the next
// command. An error that is no ErrorReply has broken it, too.
func (c *Conn) Do(ctx context.Context, args ...any) (any, error) {
	// A reply that comes late would be taken for that of this command.
	if c.broken {
		return nil, net.ErrClosed
	}
	words := make([]string, len(args))
	for i, arg := range args {
		words[i] = fmt.Sprint(arg)
	}
	// closing wakes a read that would wait on
	stop := context.AfterFunc(ctx, c.Close)
	_, err := c.sock.Write(resp.AppendCommandStrings(nil, words...))
	var v resp.Value
	if err == nil {
		v, _, err = c.replies.Next()
	}
	if !stop() && err != nil { // it was closed by ctx, and the error would only say so
		err = fmt.Errorf("there was no answer: %w", context.Cause(ctx))
	}
	switch {
	case err != nil:
		c.broken = true
		c.Close()
		return nil, err
	case v.IsError():
		return nil, ErrorReply(v.Err())
	}
	return plain(v), nil
}

// plain is v as Do returns it. A map comes as an array of names and values in turn: the connection speaks
// RESP2.
func plain(v resp.Value) any {
	switch {
	case v.Null():
		return nil
	case v.Kind == ':':
		return v.Int
	case v.Kind == '*':
		all := make([]any, len(v.Elems))
		for i, one := range v.Elems {
			all[i] = plain(one)
		}
		return all
	}
	return v.Text()
}

// Broken says that a command has had no answer, and none will have one. Nil, no connection, is broken.
func (c *Conn) Broken() bool { return c == nil || c.broken }

// Close ends the connection, if there is one, and with it what waits and what is kept alive there.
func (c *Conn) Close() {
	if c != nil {
		c.sock.Close()
	}
}
