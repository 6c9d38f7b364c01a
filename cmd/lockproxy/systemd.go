package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/coreos/go-systemd/v22/activation"
	"github.com/coreos/go-systemd/v22/daemon"

	"lockproxy/cmd/lockproxy/settings"
)

// The program tells systemd, or whoever speaks its protocol, how it is (sd_notify), and takes listening
// sockets that it is started with (sd_listen_fds). Both are named by the environment, and without it nothing
// is done.

// notify tells the service manager of a state.
func (p *program) notify(state string) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		p.log.Debug("the service manager cannot be told", "err", err)
	}
}

// ready tells it that clients can connect, and what they find.
func (p *program) ready(what string) {
	p.toldReady.Store(true)
	p.notify(daemon.SdNotifyReady + "\nSTATUS=" + what)
}

// stopping tells it that the end has begun.
func (p *program) stopping() {
	p.toldReady.Store(false)
	p.notify(daemon.SdNotifyStopping)
}

// rereading tells it that settings are reread, until done, if it was told that clients can connect.
func (p *program) rereading() (done func()) {
	if !p.toldReady.Load() {
		return func() {}
	}
	p.notify(daemon.SdNotifyReloading + "\n" + daemon.SdNotifyMonotonicUsec())
	return func() { p.notify(daemon.SdNotifyReady) }
}

// startWatchdog feeds the watchdog of the service manager, if it has one, until life ends.
func (p *program) startWatchdog(life context.Context) {
	interval, err := daemon.SdWatchdogEnabled(false)
	if err != nil {
		p.log.Error("watchdog: cannot be fed", "err", err)
	}
	if err == nil && interval > 0 {
		go p.feed(life, interval, p.notify) // ends with life
	}
}

// feed feeds a watchdog that waits for interval, as long as the event loops turn: a proxy that hangs is to be
// started anew.
func (p *program) feed(life context.Context, interval time.Duration, notify func(state string)) {
	tick := time.NewTicker(interval / 4)
	defer tick.Stop()
	for {
		select {
		case <-life.Done():
			return
		case <-tick.C:
		}
		ctx, cancel := context.WithTimeout(life, interval/4)
		err := p.state.turns(ctx)
		cancel()
		switch {
		case life.Err() != nil:
			return
		case err != nil:
			p.log.Error("the event loops do not turn: the watchdog is not fed", "err", err)
		default:
			notify(daemon.SdNotifyWatchdog)
		}
	}
}

// turns returns nil once all event loops, if there are any yet, have had a round.
func (s *state) turns(ctx context.Context) error {
	if pl := s.now(); pl != nil {
		return pl.Turns(ctx)
	}
	return nil
}

// activated takes the listening sockets that the program was started with. Each has to be one that a setting
// names.
func (p *program) activated() error {
	var wrong []error
	for _, file := range activation.Files(true) {
		name, err := p.nameOf(file)
		if err != nil {
			wrong = append(wrong, err)
			continue
		}
		p.ports.take([]port{{name, file}})
		p.lent = true
	}
	return errors.Join(wrong...)
}

// nameOf is the name of a socket as a port.
func (p *program) nameOf(file *os.File) (string, error) {
	ln, err := net.FileListener(file)
	if err != nil {
		return "", fmt.Errorf("a descriptor that lockproxy was started with (LISTEN_FDS): %w", err)
	}
	defer ln.Close()
	v := p.config.Values()
	for _, addr := range v.Listen {
		if isAt(ln.Addr(), addr) {
			return "listen " + addr, nil
		}
	}
	if v.Admin != "" && isAt(ln.Addr(), v.Admin) {
		return "admin " + v.Admin, nil
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
	return want.IP.Equal(at.IP) || (want.IP == nil || want.IP.IsUnspecified()) && at.IP.IsUnspecified()
}
