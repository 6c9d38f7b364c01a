package cluster

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"lockproxy/internal/resp"
)

// Dial returns a connection to the node at addr that is ready for requests: TLS is set up, the login is done,
// and it is in mode m. The connection's name is lockproxy where the node allows it. Dial blocks until then,
// until ctx ends or Options.ConnectTimeout is over. before, if not nil, is the connection whose place it
// takes: the node ends that one first, and before becomes the new one. Safe for concurrent use.
func (u *Upstream) Dial(ctx context.Context, addr string, m Mode, before *Identity) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, u.o.ConnectTimeout)
	defer cancel()
	conn, err := u.o.connect(ctx, addr)
	if err != nil {
		return nil, nodeError{addr, err}
	}
	stop := context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })
	m.Replica = m.Replica && u.kind == Cluster
	var self Identity
	err = shakeHands(conn, login{u.o.User, u.o.Password}, m, before, &self)
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		conn.Close()
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return nil, nodeError{addr, err}
	}
	if before != nil {
		if before.owed && (before.id == "" || self.refused != "") {
			u.cannotKill.Do(func() {
				u.o.Log.Warn("a node does not end connections for us (CLIENT INFO, CLIENT KILL): what was lost on its way may "+
					"still run after it was sent again", "node", addr, "err", cmp.Or(self.refused, before.refused))
			})
		}
		*before = self
	}
	return conn, nil
}

// connect opens a connection to addr, with TLS if that is asked for, that has not
// said anything yet.
func (o *Options) connect(ctx context.Context, addr string) (net.Conn, error) {
	network := "tcp"
	if strings.HasPrefix(addr, "/") {
		network = "unix"
	}
	conn, err := o.Dial(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		tcp.SetNoDelay(true)
		limitSilence(tcp, o.KeepAlive)
	}
	if o.TLS == nil {
		return conn, nil
	}
	config := o.TLS()
	if host, _, err := net.SplitHostPort(addr); err == nil && config.ServerName == "" && !config.InsecureSkipVerify {
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

// shakeHands does the login and sets the mode, all in one round trip. A *modeError says that the node has not
// the database of m, or not the user. before, if not nil, is ended by it, and self becomes the identity of
// conn.
func shakeHands(conn net.Conn, as login, m Mode, before, self *Identity) error {
	var hello []byte
	var asked []step
	user := cmp.Or(as.user, "default")
	switch {
	case m.Proto == 3 && as.password != "":
		hello = resp.AppendCommandStrings(hello, "HELLO", "3", "AUTH", user, as.password)
	case m.Proto == 3:
		hello = resp.AppendCommandStrings(hello, "HELLO", "3")
	case as.password != "":
		hello = resp.AppendCommandStrings(hello, "AUTH", user, as.password)
	}
	if hello != nil {
		asked = append(asked, required)
	}
	if m.DB != 0 {
		hello = resp.AppendCommandStrings(hello, "SELECT", strconv.Itoa(m.DB))
		asked = append(asked, database)
	}
	if m.Replica {
		hello = resp.AppendCommandStrings(hello, "READONLY")
		asked = append(asked, required)
	}
	hello = resp.AppendCommandStrings(hello, "CLIENT", "SETNAME", "lockproxy")
	asked = append(asked, optional)
	if before != nil {
		if kill := before.kill(); kill != nil {
			hello = append(hello, kill...)
			asked = append(asked, ending)
		}
		hello = append(hello, askIdentity...)
		asked = append(asked, naming)
	}
	if m.special() { // last, for this user may not be allowed the rest
		hello = resp.AppendCommandStrings(hello, "AUTH", m.Own.as.user, m.Own.as.password)
		asked = append(asked, decisive)
	}
	if _, err := conn.Write(hello); err != nil {
		return err
	}
	var buf []byte
	for _, s := range asked {
		reply, rest, err := resp.Parse(buf)
		for errors.Is(err, resp.ErrIncomplete) {
			buf = slices.Grow(buf, 1024)
			n, failed := conn.Read(buf[len(buf):cap(buf)])
			if n == 0 && failed != nil {
				return failed
			}
			buf = buf[:len(buf)+n]
			reply, rest, err = resp.Parse(buf)
		}
		if err != nil {
			return fmt.Errorf("its answer is not Redis: %w", err)
		}
		if s == naming || s == ending && isError(reply) {
			self.named(reply)
		}
		switch text := string(reply.Str); {
		case !isError(reply):
		case s == decisive, s == database && !refusesLogin(text):
			return &modeError{text}
		case s < optional || refusesLogin(text):
			return errors.New(text)
		}
		buf = rest
	}
	if len(buf) > 0 {
		return errors.New("the node said more than it was asked for")
	}
	return nil
}

// step is what becomes of an error in the reply to a command of shakeHands.
type step uint8

const (
	required step = iota
	database      // a *modeError, unless nobody is let in
	decisive      // a *modeError
	optional      // it does not matter
	ending        // the same: the connection before
	naming        // the same: of this connection
)

func isError(v resp.Value) bool { return v.Kind == '-' || v.Kind == '!' }
