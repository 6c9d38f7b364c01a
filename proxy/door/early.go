package door

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

// Early has the clients that connect before there is a proxy.Server, because the upstream is not found yet:
//
//	Serve --> client --> first command: waits for a moment, for the upstream or a reason why there is none
//	                          |
//	                     each command: -LOADING and the reason
//	                          |
//	Open(Server) -------------+--> the listeners and the clients are the Server's now
//
// No command is run and nobody logs in, so a client that is handed over is one that has just connected. Each
// has a goroutine; that is enough for a time in which nothing can be done. Safe for concurrent use.
type Early struct {
	o     EarlyOptions
	since time.Time
	door  *Door
	over  context.Context // ended by Open and Close, and all handshakes with it
	end   context.CancelFunc

	mu      sync.Mutex
	clients map[net.Conn]struct{}
	handed  uint64    // clients that went to the Successor
	to      Successor // after Open
	work    sync.WaitGroup
}

// Successor is who has the clients of Early next. A proxy.Server is one.
type Successor interface {
	Serve(ln net.Listener) error
	// Admit lets in a client, of which came was read already.
	Admit(nc net.Conn, came []byte)
	// Earlier counts clients that came and went before, and those that were turned away.
	Earlier(came, rejected uint64)
}

// EarlyOptions configure an Early.
type EarlyOptions struct {
	TLS        func() *tls.Config // clients on TCP must use it; nil: they need not
	MaxClients int                // connected at a time
	Why        func() error       // why there is no Server yet; nil: that is not known yet
	Secret     func() bool        // and it is not told, for clients have to log in
	Log        *slog.Logger
}

const (
	// earlyRoom is how many bytes of a command are read here. A longer one is answered by the Server.
	earlyRoom = 4 << 10
	// grace is how long a client waits while the first look for the upstream is under way, so that a proxy
	// that starts behind a balancer fails no command.
	grace = time.Second
	// patience is how long a client may take to read an answer.
	patience = time.Second
)

// NewEarly is an Early without listeners.
func NewEarly(o EarlyOptions) *Early {
	e := &Early{o: o, since: time.Now(), clients: make(map[net.Conn]struct{})}
	e.over, e.end = context.WithCancel(context.Background())
	e.door = New(Options{
		TLS: o.TLS, TLSFailed: func(net.Addr, error) {}, Come: e.come, Context: e.over, Log: o.Log,
	}, LiveSettings{MaxClients: o.MaxClients, KeepAlive: 15 * time.Second})
	return e
}

// Serve answers the clients of ln, on TCP or a unix socket, until Open or Close.
func (e *Early) Serve(ln net.Listener) { e.door.Serve(ln) } // which is never shut

// Open gives the listeners and the clients to s. It returns their addresses when s has all of them. A client
// in the middle of a TLS handshake has to connect again. It is called once, and blocks until each client's
// goroutine has ended, which takes no longer than an answer that is being written.
func (e *Early) Open(s Successor) (all []net.Addr, err error) {
	for _, ln := range e.stopClients(s) {
		err = errors.Join(err, s.Serve(ln))
		all = append(all, ln.Addr())
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	// Those that went over are counted by s itself, as they come in there.
	s.Earlier(e.door.Came()-e.handed, e.door.Rejected())
	return all, err
}

// Counts are those of its clients: who are there, who ever were, and who were turned away.
func (e *Early) Counts() (clients int, came, rejected uint64) {
	return e.door.Clients(), e.door.Came(), e.door.Rejected()
}

// Close closes the listeners and the clients. After Open it does nothing.
func (e *Early) Close() {
	for _, ln := range e.stopClients(nil) {
		ln.Close()
	}
}

// stopClients ends all goroutines, which give their clients to s; nil: they close them. It returns the
// listeners, if that was not done before. A deadline that is over wakes those that read; those that wait for
// over are woken by its end.
func (e *Early) stopClients(s Successor) []net.Listener {
	e.mu.Lock()
	if e.isOver() {
		e.mu.Unlock()
		return nil
	}
	e.to = s
	e.end()
	for nc := range e.clients {
		nc.SetReadDeadline(time.Now())
	}
	e.mu.Unlock()
	all := e.door.Pause()
	e.work.Wait()
	return all
}

// isOver says that Open or Close was called. It needs no lock, but only under mu it stays as it is.
func (e *Early) isOver() bool { return e.over.Err() != nil }

// come is the stay of one client. Who comes through the door while it ends is handed over at once.
func (e *Early) come(n Newcomer) {
	e.mu.Lock()
	over := e.isOver()
	if !over {
		e.clients[n.Conn] = struct{}{}
		e.work.Go(func() { // ends with its client, Open or Close
			rest, stays := e.answerCommands(n.Conn)
			e.handOver(n.Conn, rest, stays)
		})
	}
	e.mu.Unlock()
	if over {
		e.handOver(n.Conn, nil, true)
	}
}

// handOver gives a client that stays to who has it next, with rest, which was read of it already. If nobody
// has it next, which is so after Close, it is closed.
func (e *Early) handOver(nc net.Conn, rest []byte, stays bool) {
	e.mu.Lock()
	delete(e.clients, nc)
	to := e.to
	if stays = stays && to != nil; stays {
		e.handed++
	}
	e.mu.Unlock()
	e.door.Left()
	if !stays {
		nc.Close()
		return
	}
	// The deadline that woke its goroutine would end the first read of the next owner, too.
	nc.SetDeadline(time.Time{})
	to.Admit(nc, rest)
}

// answerCommands answers commands until Early ends; then it returns what was read of the next one. stays is
// false if the client has gone, or must. The buffer grows from 512 bytes to earlyRoom. A command that does
// not fit is not answered here: its client waits for the end of Early, and nothing more is read of it.
func (e *Early) answerCommands(nc net.Conn) (rest []byte, stays bool) {
	var guard resp.InputGuard
	limits := resp.DefaultLimits()
	buf := make([]byte, 0, 512)
	for {
		if len(buf) == cap(buf) {
			if len(buf) >= earlyRoom {
				<-e.over.Done()
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
			// This command is not answered: the Successor runs it.
			if e.openSoon() {
				return buf, true
			}
			args, _, err := resp.Split(buf[:n], nil)
			if err != nil || len(args) > 0 && !e.replyTo(nc, args[0]) {
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

// openSoon waits until it is known why there is no Server yet, or for the time of grace after the start. It
// reports whether Early is over. It asks again and again, since Why is no event; this lasts no longer than
// grace, once for the whole of Early.
func (e *Early) openSoon() bool {
	for e.o.Why() == nil && time.Since(e.since) < grace {
		select {
		case <-e.over.Done():
			return true
		case <-time.After(5 * time.Millisecond):
		}
	}
	return e.isOver()
}

// replyTo answers one command. It returns false if the connection is to end. A page in a browser can make it
// send HTTP here, with commands in its body. As Redis does, such a connection is ended at the first line that
// shows it.
func (e *Early) replyTo(nc net.Conn, name []byte) bool {
	text := resp.ErrorLine("LOADING %s", e.text())
	more := true
	switch {
	case resp.IsWord(name, "QUIT"):
		text, more = resp.OK, false
	case resp.IsWord(name, "POST"), resp.IsWord(name, "HOST:"): // a browser that was sent here
		return false
	}
	nc.SetWriteDeadline(time.Now().Add(patience))
	_, err := nc.Write(text)
	return err == nil && more
}

// text is what clients are told. The reason may tell of addresses inside, so a client that would have to log
// in first is not told it.
func (e *Early) text() string {
	why, text := e.o.Why(), "lockproxy has not found its upstream yet"
	var unreached *master.Unreached
	if errors.As(why, &unreached) {
		text = "lockproxy has not reached most of its masters of RedLock yet"
	}
	if why == nil || e.o.Secret() {
		return text
	}
	return text + ": " + cluster.Reasons(why)
}
