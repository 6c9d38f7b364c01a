package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"sync/atomic"
	"time"

	"github.com/coreos/go-systemd/v22/activation"
	"github.com/coreos/go-systemd/v22/daemon"

	"lockproxy/cmd/lockproxy/settings"
)

// The program tells systemd, or whoever speaks its protocol, how it is (sd_notify), and takes listening
// sockets that it is started with (sd_listen_fds). Both are named by the environment, and without it nothing
// is done.

// Manager is the service manager, whose it is to start this program and to end it.
type Manager struct {
	log       *slog.Logger
	toldReady atomic.Bool // that clients can connect, and nothing else since
}

// NewManager is whoever the environment names.
func NewManager(log *slog.Logger) *Manager { return &Manager{log: log} }

// patience is how long a service manager may take to take a message: one that reads none must not keep this
// program from its end. daemon.SdNotify would wait for ever.
const patience = time.Second

// notifyState tells it of a state.
func (m *Manager) notifyState(state string) {
	conn, err := net.Dial("unixgram", os.Getenv("NOTIFY_SOCKET"))
	if err != nil {
		return // there is none, or it has gone
	}
	defer conn.Close()
	conn.SetWriteDeadline(time.Now().Add(patience))
	io.WriteString(conn, state)
}

// Ready tells it that clients can connect, and what they find.
func (m *Manager) Ready(what string) {
	m.toldReady.Store(true)
	m.notifyState(daemon.SdNotifyReady + "\nSTATUS=" + what)
}

// Stopping tells it that the end has begun.
func (m *Manager) Stopping() {
	m.toldReady.Store(false)
	m.notifyState(daemon.SdNotifyStopping)
}

// Rereading tells it that settings are reread, until done, if it was told that clients can connect. While it
// starts or ends, systemd must not take it for ready because a SIGHUP came.
func (m *Manager) Rereading() (done func()) {
	if !m.toldReady.Load() {
		return func() {}
	}
	m.notifyState(daemon.SdNotifyReloading + "\n" + daemon.SdNotifyMonotonicUsec())
	return func() { m.notifyState(daemon.SdNotifyReady) }
}

// Watch feeds the watchdog of the service manager, if it has one, as long as s turns, until life ends.
func (m *Manager) Watch(life context.Context, s *State) {
	interval, err := daemon.SdWatchdogEnabled(false)
	if err != nil {
		m.log.Error("watchdog: cannot be fed", "err", err)
	}
	if err == nil && interval > 0 {
		go m.feedWatchdog(life, interval, s, m.notifyState) // ends with life
	}
}

// feedWatchdog feeds a watchdog that waits for interval, as long as the event loops turn: a proxy that hangs
// is to be started anew.
func (m *Manager) feedWatchdog(
	life context.Context, interval time.Duration, s *State, notify func(state string),
) {
	// So a round that is lost leaves time for one that is not. systemd advises half of the interval
	// (sd_watchdog_enabled).
	tick := time.NewTicker(interval / 4)
	defer tick.Stop()
	for {
		select {
		case <-life.Done():
			return
		case <-tick.C:
		}
		ctx, cancel := context.WithTimeout(life, interval/4)
		err := s.Turns(ctx)
		cancel()
		switch {
		case life.Err() != nil:
			return
		case err != nil:
			m.log.Error("the event loops do not turn: the watchdog is not fed", "err", err)
		default:
			notify(daemon.SdNotifyWatchdog)
		}
	}
}

// Activate takes the listening sockets that the program was started with. Each has to be one that v names.
func (p *Ports) Activate(v *settings.Values) error {
	// true takes the variables away, so that no program that this one starts takes the sockets for its own.
	return p.takeSockets(v, activation.Files(true))
}

func (p *Ports) takeSockets(v *settings.Values, all []*os.File) error {
	var wrong []error
	p.handed = make(map[string]*os.File)
	for _, file := range all {
		name, err := nameOf(v, file)
		// A second one for an address would have nobody who accepts: its clients would wait for ever.
		if err == nil && p.handed[name] != nil {
			err = fmt.Errorf("lockproxy was started with two sockets for %s (LISTEN_FDS): the socket unit "+
				"must have one", name)
		}
		// All are looked at, so that one start tells of all. Join leaves out what is nil.
		wrong = append(wrong, err)
		p.handed[name] = file
	}
	return errors.Join(wrong...)
}

// nameOf is the name of a socket as a port.
func nameOf(v *settings.Values, file *os.File) (string, error) {
	ln, err := net.FileListener(file)
	if err != nil {
		return "", fmt.Errorf("a descriptor that lockproxy was started with (LISTEN_FDS): %w", err)
	}
	// a copy: file stays open
	defer ln.Close()
	for _, addr := range v.Listen {
		if isAt(ln.Addr(), addr) {
			return "listen " + addr, nil
		}
	}
	if v.Admin.Addr != "" && isAt(ln.Addr(), v.Admin.Addr) {
		return "admin " + v.Admin.Addr, nil
	}
	return "", fmt.Errorf("lockproxy was started with a socket that listens on %s (LISTEN_FDS): listen or "+
		"admin has to name that address", ln.Addr())
}

// isAt says that a socket at bound is one for addr.
func isAt(bound net.Addr, addr string) bool {
	at, ok := bound.(*net.TCPAddr)
	if !ok || settings.IsSocket(addr) {
		return bound.String() == addr
	}
	want, err := net.ResolveTCPAddr("tcp", addr)
	if err != nil || want.Port != at.Port {
		return false
	}
	// All addresses are written in several ways ("", 0.0.0.0, ::), and a socket tells one of them.
	return want.IP.Equal(at.IP) || (want.IP == nil || want.IP.IsUnspecified()) && at.IP.IsUnspecified()
}
