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
)

// handshakeTimeout bounds the TLS handshake of a client.
const handshakeTimeout = 10 * time.Second

// Listen listens on addr, a TCP address or the path of a unix socket, and serves clients there until Drain.
// It returns the bound address.
func (s *Server) Listen(addr string) (net.Addr, error) {
	network := "tcp"
	if strings.Contains(addr, "/") {
		network = "unix"
		removeDeadSocket(addr)
	}
	ln, err := net.Listen(network, addr)
	if err != nil {
		return nil, fmt.Errorf("proxy: listen: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.draining.Load() {
		ln.Close()
		return nil, fmt.Errorf("proxy: listen: %w", net.ErrClosed)
	}
	s.listeners = append(s.listeners, ln)
	go s.accept(ln) // ends when Drain closes ln
	return ln.Addr(), nil
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
	if s.clients.Add(1) > int64(s.now.Load().MaxClients) {
		s.clients.Add(-1)
		s.rejected.Add(1)
		nc.SetWriteDeadline(time.Now().Add(time.Second))
		nc.Write(tooManyClients)
		nc.Close()
		return
	}
	if tcp, ok := nc.(*net.TCPConn); ok {
		idle := s.now.Load().KeepAlive
		tcp.SetKeepAliveConfig(
			net.KeepAliveConfig{Enable: idle > 0, Idle: idle, Interval: max(idle/3, time.Second), Count: 3},
		)
	}
	if !s.enter() {
		s.clients.Add(-1)
		nc.Close()
		return
	}
	id := s.lastID.Add(1)
	w := s.workerOf(id)
	addr, local, unix := endpoints(nc)
	ses := newSession(commands.Client{
		ID: id, Addr: addr, LocalAddr: local, Unix: unix,
		Created: time.Now(), Proto: 2, Authenticated: !whole{s}.AuthRequired(),
	}, w)
	posted := w.loop.Post(func() {
		conn, err := w.loop.Add(nc, ses)
		if err != nil {
			s.o.Log.Error("client refused", "client", ses.Addr, "err", err)
			s.clients.Add(-1)
			s.sessions.Done()
			return
		}
		ses.conn, ses.active = conn, w.loop.Now()
		w.add(ses)
		if w.draining {
			ses.drain()
		}
	})
	if !posted {
		nc.Close()
		s.clients.Add(-1)
		s.sessions.Done()
	}
}

// workerOf returns the worker of the client with that ID, which need not exist.
func (s *Server) workerOf(id int64) *worker {
	return s.workers[uint64(id)%uint64(len(s.workers))]
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
