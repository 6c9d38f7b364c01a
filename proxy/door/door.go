// Package door lets clients in: it listens, counts them, turns away those that are too many, and does the
// handshake of TLS before a loop sees a client.
//
//	Serve --> a loop accepts (Accepted), or a goroutine (acceptClients --> handshake)
//	                                    --> Options.Come(Newcomer)
//
// Early has the clients that come before there is an upstream, behind a Door of its own.
package door

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"lockproxy/internal/loop"
)

// handshakeTimeout bounds the TLS handshake of a client. Until it is over the client holds a goroutine and a
// place among MaxClients, and nothing else watches it: no loop knows it yet.
const handshakeTimeout = 10 * time.Second

// tooManyClients is what Redis says to a client above maxclients.
var tooManyClients = []byte("-ERR max number of clients reached\r\n")

// Options configure a Door.
type Options struct {
	Loop      *loop.Loop                     // accepts clients where it can; nil: goroutines do
	TLS       func() *tls.Config             // of clients on TCP, asked for each new one; nil: no TLS
	TLSFailed func(client net.Addr, e error) // a client did not get through its handshake
	Come      func(n Newcomer)               // is given each client, in any goroutine
	Context   context.Context                // of handshakes
	Log       *slog.Logger
}

// LiveSettings may change while a Door is open.
type LiveSettings struct {
	MaxClients int           // inside at a time
	KeepAlive  time.Duration // of TCP; negative: never
	// a client that has not authenticated after so long is closed, and one in its TLS handshake no later than
	// after handshakeTimeout; 0: only the latter
	AuthTimeout time.Duration
}

// Door is where clients come in. Its methods may be called from any goroutine, but for those of
// loop.Acceptor.
type Door struct {
	o   Options
	now atomic.Pointer[LiveSettings]

	mu        sync.Mutex
	listeners []listener
	shut      bool
	accepting sync.WaitGroup // goroutines of accept

	inside     sync.WaitGroup // clients that have not left
	clients    atomic.Int64   // how many these are
	handshakes atomic.Int64   // under way
	came       atomic.Int64   // clients that ever were inside; the last ID
	rejected   atomic.Uint64
}

// listener is what listens for clients: a loop, or a goroutine for TLS and where loops cannot.
type listener interface {
	Addr() net.Addr
	Close() error
}

// Newcomer is a client that has just come in. Whoever gets it calls Join or Refuse, and Door.Left when the
// client is gone.
type Newcomer struct {
	ID          int64
	Addr, Local string // as Redis writes them
	Unix        bool
	Conn        net.Conn      // nil: On has accepted it
	Came        []byte        // read of Conn already
	On          *loop.Loop    // the loop on which Come is called; nil: it is called on a goroutine
	in          loop.Incoming // what On has accepted
}

// New is a Door without listeners.
func New(o Options, s LiveSettings) *Door {
	d := &Door{o: o}
	d.now.Store(&s)
	return d
}

// Serve lets the clients of ln in, on TCP or a unix socket, until Shut. It does not block. ln
// belongs to the Door from now on, and is closed even if there is an error.
func (d *Door) Serve(ln net.Listener) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.shut {
		ln.Close()
		return fmt.Errorf("proxy: listen: %w", net.ErrClosed)
	}
	if d.o.Loop != nil && !d.secures(ln) {
		// It is nil where a loop cannot accept by itself: then a goroutine does.
		if accepts := d.o.Loop.Listen(ln, d.now.Load().KeepAlive, acceptor{d, ln.Addr()}); accepts != nil {
			d.listeners = append(d.listeners, accepts)
			return nil
		}
	}
	d.listeners = append(d.listeners, ln)
	d.accepting.Go(func() { d.acceptClients(ln) }) // ends when ln is closed, or its deadline is over
	return nil
}

// Pause lets nobody in through the listeners any more, which it returns. They stay open. It is for a Door
// without a loop. When it returns no goroutine is in Accept, so whoever gets the listeners next misses
// nobody.
func (d *Door) Pause() (all []net.Listener) {
	deadline := func(t time.Time) {
		for _, ln := range all {
			ln.(interface{ SetDeadline(time.Time) error }).SetDeadline(t)
		}
	}
	d.mu.Lock()
	for _, ln := range d.listeners {
		all = append(all, ln.(net.Listener))
	}
	d.listeners = nil
	d.mu.Unlock()
	// A deadline that is over ends each Accept without closing the socket. It is lifted again for the next
	// user.
	deadline(time.Now())
	d.accepting.Wait()
	deadline(time.Time{})
	return all
}

// secures says that the clients of ln must use TLS.
func (d *Door) secures(ln net.Listener) bool { return d.o.TLS != nil && ln.Addr().Network() != "unix" }

// Change changes the settings. Clients that are inside keep their keep-alive, and stay even if they are more
// than MaxClients now.
func (d *Door) Change(s LiveSettings) {
	d.now.Store(&s)
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, ln := range d.listeners {
		if accepts, ok := ln.(*loop.Listener); ok {
			accepts.KeepAlive(s.KeepAlive)
		}
	}
}

// Addrs are the addresses on which it listens.
func (d *Door) Addrs() (all []net.Addr) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, ln := range d.listeners {
		all = append(all, ln.Addr())
	}
	return all
}

// Shut lets nobody in any more.
func (d *Door) Shut() {
	d.mu.Lock()
	d.shut = true
	listeners := d.listeners
	d.mu.Unlock()
	for _, ln := range listeners {
		ln.Close()
	}
}

// IsShut says whether Shut was called.
func (d *Door) IsShut() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.shut
}

// Clients is how many are inside, Came how many ever were, and Rejected how many were too many. Clients may
// be too high for a moment, by those that are just being turned away.
func (d *Door) Clients() int     { return int(max(d.clients.Load(), 0)) }
func (d *Door) Came() uint64     { return uint64(d.came.Load()) }
func (d *Door) Rejected() uint64 { return d.rejected.Load() }

// Earlier counts clients that came and went at an earlier Door, and those that were turned away there.
func (d *Door) Earlier(came, rejected uint64) {
	d.came.Add(int64(came))
	d.rejected.Add(rejected)
}

// Left is called once for each Newcomer that is not inside any more.
func (d *Door) Left() {
	d.clients.Add(-1)
	d.inside.Done()
}

// Wait blocks until all who are inside have left. No one comes in meanwhile, after Shut. It must not be
// called before Shut: see enterClient.
func (d *Door) Wait() { d.inside.Wait() }

// acceptor has the clients come in that a loop accepts. It implements loop.Acceptor.
type acceptor struct {
	d    *Door
	addr net.Addr
}

// Accepted implements loop.Acceptor.
func (a acceptor) Accepted(in loop.Incoming) {
	n := Newcomer{Addr: in.Remote, Local: in.Local, On: a.d.o.Loop, in: in}
	if path, ok := a.addr.(*net.UnixAddr); ok {
		n.Addr, n.Local, n.Unix = path.Name+":0", path.Name+":0", true
	}
	a.d.enterClient(n)
}

// AcceptFailed implements loop.Acceptor.
func (a acceptor) AcceptFailed(err error) { a.d.o.Log.Error("accepting clients fails", "err", err) }

// acceptClients is the goroutine of a listener that no loop serves. An error that is not the end is met with
// a pause, which doubles up to a second: otherwise a process without free descriptors would only spin and
// log.
func (d *Door) acceptClients(ln net.Listener) {
	pause := 5 * time.Millisecond
	for {
		nc, err := ln.Accept()
		switch {
		case errors.Is(err, net.ErrClosed), errors.Is(err, os.ErrDeadlineExceeded):
			return
		case err != nil: // out of descriptors, say: some will be free again
			d.o.Log.Error("accepting clients fails", "err", err)
			time.Sleep(pause)
			pause = min(2*pause, time.Second)
			continue
		}
		if pause = 5 * time.Millisecond; d.secures(ln) {
			go d.handshake(nc) // ends within handshakeTimeout
		} else {
			d.Admit(nc, nil)
		}
	}
}

// handshake completes TLS before a client comes in. Clients in the handshake count as clients.
func (d *Door) handshake(nc net.Conn) {
	defer d.handshakes.Add(-1)
	now := d.now.Load()
	if d.handshakes.Add(1)+d.clients.Load() > int64(now.MaxClients) {
		d.rejected.Add(1)
		nc.Close()
		return
	}
	secure := tls.Server(nc, d.o.TLS())
	limit := handshakeTimeout
	if now.AuthTimeout > 0 {
		limit = min(limit, now.AuthTimeout)
	}
	ctx, cancel := context.WithTimeout(d.o.Context, limit)
	defer cancel()
	if err := secure.HandshakeContext(ctx); err != nil {
		d.o.TLSFailed(nc.RemoteAddr(), err)
		nc.Close()
		return
	}
	d.Admit(secure, nil)
}

// Admit lets in one client over nc, which the Door owns from now on, as it does came: what was read of nc
// already.
func (d *Door) Admit(nc net.Conn, came []byte) {
	n := Newcomer{Conn: nc, Came: came}
	if path, ok := nc.LocalAddr().(*net.UnixAddr); ok {
		n.Addr, n.Local, n.Unix = path.Name+":0", path.Name+":0", true
	} else {
		n.Addr, n.Local = nc.RemoteAddr().String(), nc.LocalAddr().String()
	}
	if tcp, ok := loop.BelowTLS(nc).(*net.TCPConn); ok {
		idle := d.now.Load().KeepAlive
		tcp.SetKeepAliveConfig(
			net.KeepAliveConfig{Enable: idle > 0, Idle: idle, Interval: max(idle/3, time.Second), Count: 3},
		)
	}
	d.enterClient(n)
}

// enterClient lets a client in, or turns it away. It is counted before it is compared with the limit, so that
// of many who come at once no more than MaxClients get in.
func (d *Door) enterClient(n Newcomer) {
	if d.clients.Add(1) > int64(d.now.Load().MaxClients) {
		d.clients.Add(-1)
		d.rejected.Add(1)
		n.turnAway(tooManyClients)
		return
	}
	d.mu.Lock()
	// A WaitGroup must not rise from 0 while somebody waits for it. So Add comes under the lock, and not
	// after Shut has set shut: Wait is called behind that.
	shut := d.shut
	if !shut {
		d.inside.Add(1)
	}
	d.mu.Unlock()
	if shut {
		d.clients.Add(-1)
		n.turnAway(nil)
		return
	}
	n.ID = d.came.Add(1)
	d.o.Come(n)
}

// Join gives the client to l, on that loop. On an error the client is still to be counted out with Door.Left.
func (n Newcomer) Join(l *loop.Loop, h loop.Handler) (*loop.Conn, error) {
	if n.Conn == nil {
		return l.Take(n.in, h)
	}
	return l.Add(n.Conn, h)
}

// Refuse closes the connection of a client that nobody can serve.
func (n Newcomer) Refuse() { n.turnAway(nil) }

// turnAway tells the client why, if anything, and closes the connection. A goroutine is held up by that for a
// second at most.
func (n Newcomer) turnAway(why []byte) {
	switch {
	case n.Conn == nil:
		n.in.Refuse(why)
		return
	case len(why) > 0:
		n.Conn.SetWriteDeadline(time.Now().Add(time.Second))
		n.Conn.Write(why)
	}
	n.Conn.Close()
}

// Listen listens on a TCP address or the path of a unix socket. What has a slash in it is a path.
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

// removeDeadSocket removes a unix socket that nobody listens on any more. A process that was killed leaves
// one, and the name could not be bound again. Only an attempt to connect tells whether somebody listens. Any
// other kind of file is left alone.
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
