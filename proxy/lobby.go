package proxy

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"os"
	"sync"
	"time"

	"lockproxy/cluster"
	"lockproxy/cluster/master"
	"lockproxy/commands"
	"lockproxy/internal/resp"
)

// Lobby has the clients that connect before there is a Server, because the upstream is not found yet:
//
//	Serve --> client --> first command: waits for a moment, for the upstream or a reason why there is none
//	                          |
//	                     each command: -LOADING and the reason
//	                          |
//	Open(Server) -------------+--> the listeners and the clients are the Server's now
//
// No command is run and nobody logs in, so a client that is handed over is one that has just connected. Each
// has a goroutine; that is enough for a time in which nothing can be done. Safe for concurrent use.
type Lobby struct {
	o     LobbyOptions
	since time.Time

	mu        sync.Mutex
	listeners []net.Listener
	clients   map[net.Conn]struct{}
	inside    int    // of them, those that are through with TLS
	came      uint64 // were inside at any time
	handed    uint64 // of those, who went to the Successor
	rejected  uint64
	to        Successor     // after Open
	over      chan struct{} // closed by Open and Close
	work      sync.WaitGroup
}

// Successor is who has the clients of a Lobby next. A Server is one.
type Successor interface {
	Serve(ln net.Listener) error
	Admit(nc net.Conn)
	// Earlier counts clients that came and went before, and those that were turned away.
	Earlier(came, rejected uint64)
}

// LobbyOptions configure a Lobby.
type LobbyOptions struct {
	TLS        func() *tls.Config // clients on TCP must use it; nil: they need not
	MaxClients int                // connected at a time
	Why        func() error       // why there is no Server yet; nil: that is not known yet
	Secret     func() bool        // and it is not told, for clients have to log in
	Log        *slog.Logger
}

const (
	// lobbyRoom is how many bytes of a command are read here. A longer one is answered by the Server.
	lobbyRoom = 4 << 10
	// lobbyGrace is how long a client waits while the first look for the upstream is under way, so that a
	// proxy that starts behind a balancer fails no command.
	lobbyGrace = time.Second
	// lobbyPatience is how long a client may take to read an answer.
	lobbyPatience = time.Second
)

// NewLobby is a Lobby without listeners.
func NewLobby(o LobbyOptions) *Lobby {
	return &Lobby{o: o, since: time.Now(), clients: make(map[net.Conn]struct{}), over: make(chan struct{})}
}

// Serve answers the clients of ln, on TCP or a unix socket, until Open or Close.
func (l *Lobby) Serve(ln net.Listener) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.listeners = append(l.listeners, ln)
	l.work.Go(func() { l.accept(ln) }) // ends with Open or Close
}

// Open gives the listeners and the clients to s. It returns their addresses when s has all of them. A client
// in the middle of a TLS handshake has to connect again.
func (l *Lobby) Open(s Successor) (all []net.Addr, err error) {
	l.end(s)
	for _, ln := range l.listeners {
		ln.(deadliner).SetDeadline(time.Time{})
		err = errors.Join(err, s.Serve(ln))
		all = append(all, ln.Addr())
	}
	s.Earlier(l.came-l.handed, l.rejected)
	return all, err
}

// Stats are those of its clients.
func (l *Lobby) Stats() Stats {
	l.mu.Lock()
	defer l.mu.Unlock()
	var st Stats
	st.Clients, st.ClientsTotal, st.ClientsRejected = l.inside, l.came, l.rejected
	return st
}

// Close closes the listeners and the clients. After Open it does nothing.
func (l *Lobby) Close() {
	if !l.end(nil) {
		return
	}
	for _, ln := range l.listeners {
		ln.Close()
	}
}

// deadliner is a listener on TCP or a unix socket.
type deadliner interface{ SetDeadline(time.Time) error }

// end ends all goroutines, which give their clients to s; nil: they close them. It reports false if that
// was done before.
func (l *Lobby) end(s Successor) bool {
	l.mu.Lock()
	if l.isOver() {
		l.mu.Unlock()
		return false
	}
	l.to = s
	close(l.over)
	now := time.Now()
	for _, ln := range l.listeners {
		ln.(deadliner).SetDeadline(now)
	}
	for nc := range l.clients {
		nc.SetReadDeadline(now)
	}
	l.mu.Unlock()
	l.work.Wait()
	return true
}

func (l *Lobby) isOver() bool {
	select {
	case <-l.over:
		return true
	default:
		return false
	}
}

// accept takes clients in.
func (l *Lobby) accept(ln net.Listener) {
	for {
		nc, err := ln.Accept()
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, net.ErrClosed):
			return
		case err != nil: // out of descriptors, say
			l.o.Log.Error("accepting clients fails", "err", err)
			time.Sleep(100 * time.Millisecond)
			continue
		}
		if !l.enter(nc) {
			continue
		}
		secure := l.o.TLS != nil && ln.Addr().Network() != "unix"
		l.work.Go(func() { l.serve(nc, secure) }) // ends with its client, Open or Close
	}
}

// enter notes a client, or turns it away.
func (l *Lobby) enter(nc net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.clients) >= l.o.MaxClients {
		l.rejected++
		nc.SetWriteDeadline(time.Now().Add(time.Second))
		nc.Write(tooManyClients)
		nc.Close()
		return false
	}
	l.clients[nc] = struct{}{}
	if l.isOver() {
		nc.SetReadDeadline(time.Now())
	}
	return true
}

// serve is the stay of one client.
func (l *Lobby) serve(nc net.Conn, secure bool) {
	peer := nc
	if secure {
		server := tls.Server(nc, l.o.TLS())
		ctx, cancel := context.WithTimeout(context.Background(), handshakeTimeout)
		err := server.HandshakeContext(ctx)
		cancel()
		if err != nil {
			l.mu.Lock()
			delete(l.clients, nc)
			l.mu.Unlock()
			nc.Close()
			return
		}
		peer = server
	}
	l.mu.Lock()
	l.inside++
	l.came++
	l.mu.Unlock()
	rest, stays := l.answer(peer)
	to := l.leave(nc, stays)
	if to == nil {
		peer.Close()
		return
	}
	nc.SetDeadline(time.Time{})
	if len(rest) > 0 {
		peer = &begun{peer, rest}
	}
	to.Admit(peer)
}

// leave forgets a client, and says who has one next that stays. nil: nobody.
func (l *Lobby) leave(nc net.Conn, stays bool) Successor {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.clients, nc)
	l.inside--
	if !stays || l.to == nil {
		return nil
	}
	l.handed++
	return l.to
}

// answer answers commands until the Lobby ends; then it returns what was read of the next one. stays is false
// if the client has gone, or must.
func (l *Lobby) answer(nc net.Conn) (rest []byte, stays bool) {
	var guard resp.Guard
	limits := resp.DefaultLimits()
	buf := make([]byte, 0, 512)
	for {
		if len(buf) == cap(buf) {
			if len(buf) >= lobbyRoom {
				<-l.over
				return buf, true
			}
			buf = append(make([]byte, 0, 2*cap(buf)), buf...)
		}
		n, err := nc.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		for len(buf) > 0 {
			n, err := guard.Next(buf, &limits)
			if err != nil {
				nc.Write(commands.ErrorReply(err))
				return nil, false
			}
			if n == 0 {
				break
			}
			if l.openSoon() {
				return buf, true
			}
			args, _, err := resp.Split(buf[:n], nil)
			if err != nil || len(args) > 0 && !l.reply(nc, args[0]) {
				return nil, false
			}
			buf = append(buf[:0], buf[n:]...)
		}
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			return buf, true
		case err != nil:
			return nil, false
		}
	}
}

// openSoon waits until it is known why there is no Server yet, or for lobbyGrace after the start. It reports
// whether the Lobby is over.
func (l *Lobby) openSoon() bool {
	for l.o.Why() == nil && time.Since(l.since) < lobbyGrace {
		select {
		case <-l.over:
			return true
		case <-time.After(5 * time.Millisecond):
		}
	}
	return l.isOver()
}

// reply answers one command. It returns false if the connection is to end.
func (l *Lobby) reply(nc net.Conn, name []byte) bool {
	text := resp.ErrorLine("LOADING %s", l.text())
	more := true
	switch {
	case resp.IsWord(name, "QUIT"):
		text, more = resp.OK, false
	case resp.IsWord(name, "POST"), resp.IsWord(name, "HOST:"): // a browser that was sent here
		return false
	}
	nc.SetWriteDeadline(time.Now().Add(lobbyPatience))
	_, err := nc.Write(text)
	return err == nil && more
}

// text is what clients are told.
func (l *Lobby) text() string {
	why, text := l.o.Why(), "lockproxy has not found its upstream yet"
	var unreached *master.Unreached
	if errors.As(why, &unreached) {
		text = "lockproxy has not reached most of its masters of RedLock yet"
	}
	if why == nil || l.o.Secret() {
		return text
	}
	return text + ": " + cluster.Reasons(why)
}

// begun is a connection of which something was read already.
type begun struct {
	net.Conn
	rest []byte
}

// Read implements net.Conn.
func (b *begun) Read(p []byte) (int, error) {
	if len(b.rest) == 0 {
		return b.Conn.Read(p)
	}
	n := copy(p, b.rest)
	b.rest = b.rest[n:]
	return n, nil
}
