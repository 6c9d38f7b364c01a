package proxy

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"lockproxy/commands"
	"lockproxy/internal/loop"
)

// handshakeTimeout bounds the TLS handshake of a client.
const handshakeTimeout = 10 * time.Second

// Serve serves the clients of ln, on TCP or a unix socket, until Drain closes it.
func (s *Server) Serve(ln net.Listener) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.draining.Load() {
		ln.Close()
		return fmt.Errorf("proxy: listen: %w", net.ErrClosed)
	}
	if s.o.TLS == nil || ln.Addr().Network() == "unix" {
		d := &door{s: s, w: s.workers[0], addr: ln.Addr()}
		if accepts := d.w.loop.Listen(ln, s.now.Load().KeepAlive, d); accepts != nil {
			s.listeners = append(s.listeners, accepts)
			return nil
		}
	}
	s.listeners = append(s.listeners, ln)
	go s.accept(ln) // ends when Drain closes ln
	return nil
}

// listener is what listens for clients: a loop, or a goroutine for TLS and where loops cannot.
type listener interface {
	Addr() net.Addr
	Close() error
}

// door has the clients come in that a loop accepts. It implements loop.Acceptor.
type door struct {
	s    *Server
	w    *worker
	addr net.Addr
}

// Accepted implements loop.Acceptor.
func (d *door) Accepted(in loop.Incoming) {
	remote, local, unix := in.Remote, in.Local, false
	if path, ok := d.addr.(*net.UnixAddr); ok {
		remote, unix = path.Name+":0", true
		local = remote
	}
	ses, refusal := newcomer(d.s, remote, local, unix)
	if ses == nil {
		in.Refuse(refusal)
		return
	}
	begin := func() { serve(ses, func() (*loop.Conn, error) { return ses.w.loop.Take(in, ses) }) }
	if ses.w == d.w {
		begin()
	} else if !ses.w.loop.Post(begin) {
		in.Refuse(nil)
		ses.w.leave()
	}
}

// AcceptFailed implements loop.Acceptor.
func (d *door) AcceptFailed(err error) { d.s.o.Log.Error("accepting clients fails", "err", err) }

// Leave stops listening. The sockets stay for other processes that have copies of them, with the clients that
// have not been accepted yet. Clients that are here are served as before.
func (s *Server) Leave() {
	s.mu.Lock()
	listeners := s.listeners
	s.listeners = nil
	s.mu.Unlock()
	for _, ln := range listeners {
		switch ln := ln.(type) {
		case *loop.Listener:
			ln.Leave()
		case *net.UnixListener:
			ln.SetUnlinkOnClose(false)
			ln.Close()
		default:
			ln.Close()
		}
	}
}

// Listen listens on a TCP address or the path of a unix socket.
func Listen(addr string) (net.Listener, error) {
	network := "tcp"
	if strings.Contains(addr, "/") {
		network = "unix"
		removeDeadSocket(addr)
	}
	ln, err := net.Listen(network, addr)
	if err != nil {
		return nil, fmt.Errorf("proxy: listen: %w", err)
	}
	return ln, nil
}

// removeDeadSocket removes a unix socket that nobody listens on any more.
func removeDeadSocket(path string) {
	if info, err := os.Stat(path); err != nil || info.Mode()&os.ModeSocket == 0 {
		return
	}
	if nc, err := net.DialTimeout("unix", path, time.Second); err == nil {
		nc.Close()
		return
	}
	os.Remove(path)
}

func (s *Server) accept(ln net.Listener) {
	pause := 5 * time.Millisecond
	for {
		nc, err := ln.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // out of descriptors, say: some will be free again
			s.o.Log.Error("accepting clients fails", "err", err)
			time.Sleep(pause)
			pause = min(2*pause, time.Second)
			continue
		}
		pause = 5 * time.Millisecond
		if s.o.TLS == nil || ln.Addr().Network() == "unix" {
			s.Admit(nc)
			continue
		}
		go s.handshake(nc) // ends within handshakeTimeout
	}
}

// handshake completes TLS before a loop sees the client. Clients in the handshake count as clients.
func (s *Server) handshake(nc net.Conn) {
	defer s.handshakes.Add(-1)
	if s.handshakes.Add(1)+s.clients.Load() > int64(s.now.Load().MaxClients) {
		s.rejected.Add(1)
		nc.Close()
		return
	}
	secure := tls.Server(nc, s.o.TLS())
	limit := handshakeTimeout
	if d := s.now.Load().AuthTimeout; d > 0 {
		limit = min(limit, d)
	}
	ctx, cancel := context.WithTimeout(s.ctx, limit)
	defer cancel()
	if err := secure.HandshakeContext(ctx); err != nil {
		s.failures.Tls.Note(s.o.Log, "TLS handshake failed", "client", nc.RemoteAddr(), "err", err)
		nc.Close()
		return
	}
	s.Admit(secure)
}

var tooManyClients = []byte("-ERR max number of clients reached\r\n")

// Admit serves one client over nc. The Server owns nc from now on.
func (s *Server) Admit(nc net.Conn) {
	addr, local, unix := endpoints(nc)
	ses, refusal := newcomer(s, addr, local, unix)
	if ses == nil {
		if refusal != nil {
			nc.SetWriteDeadline(time.Now().Add(time.Second))
			nc.Write(refusal)
		}
		nc.Close()
		return
	}
	if tcp, ok := nc.(*net.TCPConn); ok {
		idle := s.now.Load().KeepAlive
		tcp.SetKeepAliveConfig(
			net.KeepAliveConfig{Enable: idle > 0, Idle: idle, Interval: max(idle/3, time.Second), Count: 3},
		)
	}
	add := func() (*loop.Conn, error) { return ses.w.loop.Add(nc, ses) }
	if !ses.w.loop.Post(func() { serve(ses, add) }) {
		nc.Close()
		ses.w.leave()
	}
}

// newcomer is a client that has just connected; nil: it cannot be served, and is told the refusal.
func newcomer(s *Server, addr, local string, unix bool) (ses *session, refusal []byte) {
	if s.clients.Add(1) > int64(s.now.Load().MaxClients) {
		s.clients.Add(-1)
		s.rejected.Add(1)
		return nil, tooManyClients
	}
	if !s.enter() {
		s.clients.Add(-1)
		return nil, nil
	}
	id := s.lastID.Add(1)
	return newSession(commands.Client{
		ID: id, Addr: addr, LocalAddr: local, Unix: unix,
		Created: time.Now(), Proto: 2, Authenticated: !whole{s}.AuthRequired(),
	}, s.workers[s.all.IndexOf(id)]), nil
}

// serve begins to serve a newcomer, over the connection that add makes, on its loop.
func serve(s *session, add func() (*loop.Conn, error)) {
	w := s.w
	conn, err := add()
	if err != nil {
		w.server.o.Log.Error("client refused", "client", s.Addr, "err", err)
		w.leave()
		return
	}
	s.conn, s.active = conn, w.loop.Now()
	if w.pool.StuckEpoch() != 0 { // others ask for long replies, and this client may, too
		s.window.size = 1
	}
	w.add(s)
	if w.draining {
		s.drain()
	}
}

// Earlier implements Successor.
func (s *Server) Earlier(came, rejected uint64) {
	s.lastID.Add(int64(came)) // the number of clients that ever were, too
	s.rejected.Add(rejected)
}

// endpoints returns the addresses of a connection as Redis writes them.
func endpoints(nc net.Conn) (remote, local string, unix bool) {
	if path, ok := nc.LocalAddr().(*net.UnixAddr); ok {
		return path.Name + ":0", path.Name + ":0", true
	}
	return nc.RemoteAddr().String(), nc.LocalAddr().String(), false
}

// enter counts a client that Drain waits for. false: the server is draining already.
func (s *Server) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.draining.Load() {
		return false
	}
	s.sessions.Add(1)
	return true
}
