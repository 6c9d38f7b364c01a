package cluster

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"lockproxy/internal/resp"
)

// Defaults of a Dialer.
const (
	ConnectTimeout = 2 * time.Second
	KeepAlive      = 15 * time.Second
)

// Dialer opens connections to nodes. Safe for concurrent use.
type Dialer struct {
	Logins         *Logins            // nil: nobody authenticates
	TLS            func() *tls.Config // called for each new connection; nil: no TLS
	ConnectTimeout time.Duration      // to connect and log in
	KeepAlive      time.Duration      // silence after which the kernel probes a peer
	Log            *slog.Logger
	// Detour is where an address is reached; nil: there.
	Detour func(addr string) string
	// Net dials; nil: net.Dialer does.
	Net func(ctx context.Context, network, addr string) (net.Conn, error)

	cannotKill sync.Once // logs that once; see Identity
}

// NodeDialer makes connections to nodes: a Dialer is one, and so is the control plane.
type NodeDialer interface {
	Dial(ctx context.Context, addr string, m Mode, before *Identity) (net.Conn, error)
	// Login is how connections authenticate that are dialled now.
	Login() *Login
}

// Mode is the state that a connection is put into before its first request.
type Mode struct {
	Proto   int    // 2 or 3
	DB      int    // the database; 0 in a cluster
	Replica bool   // READONLY is sent: a node of a cluster is to serve reads as a replica
	As      *Login // the user whose it is; nil: the Dialer's
}

// Dial returns a connection to the node at addr that is ready for requests: with TLS, logged in, in mode m,
// and under the name lockproxy if the node allows names. Dial blocks until then, until ctx ends, or until
// ConnectTimeout is over. before, if not nil, is the connection that this one replaces: the node first ends
// that one, and then before becomes the identity of the new one.
func (d *Dialer) Dial(ctx context.Context, addr string, m Mode, before *Identity) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, d.ConnectTimeout)
	defer cancel()
	conn, err := d.Connect(ctx, addr)
	if err != nil {
		return nil, NodeError{addr, err}
	}
	// The handshake blocks in Read and Write, which only a deadline ends.
	stop := context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })
	var self Identity
	as := d.Login()
	err = shakeHands(conn, as, m, before, &self)
	// A wrong user of a client is no reason to look for a new password of the proxy.
	if _, user := errors.AsType[*ModeError](err); err != nil && !user && RefusesLogin(err.Error()) {
		d.Logins.Refuse(as)
	}
	// ctx has ended after the last reply: the deadline is set, and nobody could use conn.
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		conn.Close()
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return nil, NodeError{addr, err}
	}
	if before != nil {
		// Only if something was lost does it matter that the node did not end that connection.
		if before.Owed && (before.ID == "" || self.refused != "") {
			d.cannotKill.Do(func() {
				d.Log.Warn("a node does not end connections for us (CLIENT INFO, CLIENT KILL): "+
					"what was lost on its way may still run after it was sent again",
					"node", addr, "err", cmp.Or(self.refused, before.refused))
			})
		}
		*before = self
	}
	return conn, nil
}

// Login is how connections authenticate that are dialled now.
func (d *Dialer) Login() *Login { return d.Logins.Now() }

// Connect opens a connection to addr, with TLS if that is set. Nothing has been sent on it. The certificate
// has to be for addr, wherever a detour leads.
func (d *Dialer) Connect(ctx context.Context, addr string) (net.Conn, error) {
	network, at := "tcp", addr
	if d.Detour != nil {
		at = d.Detour(addr)
	}
	if strings.HasPrefix(at, "/") {
		network = "unix"
	}
	open := d.Net
	if open == nil {
		open = (&net.Dialer{KeepAlive: -1}).DialContext // that is set below
	}
	conn, err := open(ctx, network, at)
	if err != nil {
		return nil, err
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		// Whoever writes writes once a round, all that there is: to wait for more would only cost time.
		tcp.SetNoDelay(true)
		// The kernel gives up a connection whose peer is gone: it probes an idle one.
		tcp.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: d.KeepAlive,
			Interval: max(d.KeepAlive/3, time.Second), Count: 3})
		limitSilence(tcp, d.KeepAlive)
	}
	if d.TLS == nil {
		return conn, nil
	}
	config := d.TLS()
	if host, _, err := net.SplitHostPort(addr); err == nil && config.ServerName == "" {
		config = config.Clone()
		config.ServerName = host
	}
	secured := tls.Client(conn, config)
	if err := secured.HandshakeContext(ctx); err != nil {
		conn.Close()
		return nil, fmt.Errorf("TLS: %w", err)
	}
	return secured, nil
}

// shakeHands logs in and sets the mode, in one round trip, or in two if the mode has a user. A *ModeError
// says that the node does not have the database of m, or not the user. It ends the connection before, if
// that is not nil, and self becomes the identity of conn.
func shakeHands(conn net.Conn, as *Login, m Mode, before, self *Identity) error {
	var hello []byte
	var asked []handshakeStep
	ask := func(s handshakeStep, args ...string) {
		hello, asked = resp.AppendCommandStrings(hello, args...), append(asked, s)
	}
	switch {
	case m.Proto == 3 && as.Password != "":
		ask(required, "HELLO", "3", "AUTH", cmp.Or(as.User, "default"), as.Password)
	case m.Proto == 3:
		ask(required, "HELLO", "3")
	case as.Password != "":
		hello, asked = append(hello, as.authCommand()...), append(asked, required)
	}
	if m.DB != 0 {
		ask(database, "SELECT", strconv.Itoa(m.DB))
	}
	if m.Replica {
		ask(required, "READONLY")
	}
	ask(optional, "CLIENT", "SETNAME", "lockproxy")
	if before != nil {
		if kill := before.killCommand(); kill != nil {
			hello, asked = append(hello, kill...), append(asked, ending)
		}
		hello, asked = append(hello, askIdentity...), append(asked, naming)
	}
	if m.As != nil && before != nil {
		ask(numbering, "CLIENT", "ID")
	}
	if err := converse(conn, hello, asked, self); err != nil || m.As == nil {
		return err
	}
	// The user of the mode may not be allowed the other commands, and the node would note that (ACL LOG), so
	// its login comes last. It is a round trip of its own: since the fix of CVE-2025-21605, Redis does not
	// say WRONGPASS to a client that has replies to read.
	hello, asked = nil, nil
	ask(decisive, "AUTH", m.As.User, m.As.Password)
	return converse(conn, hello, asked, self)
}

// converse sends commands and reads their replies. asked says what an error in each of them means. Bytes
// behind the last reply are an error: they would be taken for the reply to the first request.
func converse(conn net.Conn, commands []byte, asked []handshakeStep, self *Identity) error {
	if _, err := conn.Write(commands); err != nil {
		return err
	}
	replies := resp.Reader{From: conn, Most: mostSaid}
	for _, s := range asked {
		reply, err := awaitReply(&replies)
		if err != nil {
			return err
		}
		switch {
		case s == naming, s == ending && reply.IsError():
			self.takeIdentity(reply)
		case s == numbering:
			self.Number = reply.Int
		}
		switch text := string(reply.Str); {
		case !reply.IsError():
		case s == decisive, s == database && !RefusesLogin(text):
			return &ModeError{text}
		case s < optional, RefusesLogin(text), TurnsAway(text):
			return Said(text)
		}
	}
	if replies.Ahead() {
		return errors.New("the node said more than it was asked for")
	}
	return nil
}

// TurnsAway says that text is no answer: a node in protected mode, or without a place for one more client,
// says so to a new client, whatever that asks, and closes the connection.
func TurnsAway(text string) bool {
	return strings.HasPrefix(text, "DENIED") || strings.Contains(text, "max number of clients")
}

// mostSaid is how many bytes a node may say about one connection, or about some of them.
const mostSaid = 1 << 20

// awaitReply returns the next reply.
func awaitReply(replies *resp.Reader) (reply resp.Value, err error) {
	if reply, _, err = replies.Next(); errors.Is(err, resp.ErrReply) {
		err = fmt.Errorf("its answer is not Redis: %w", err)
	}
	return reply, err
}

// handshakeStep says what an error in the reply to one command of shakeHands means. The order matters: what
// comes before optional must succeed.
type handshakeStep uint8

const (
	required  handshakeStep = iota
	database                // a *ModeError, unless the login has failed
	decisive                // a *ModeError
	optional                // it does not matter
	ending                  // the same: the connection before
	naming                  // the same: of this connection
	numbering               // the same: the number that CLIENT ID tells
)
