package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"lockproxy/cmd/lockproxy/admin"
	"lockproxy/cmd/lockproxy/auditlog"
	"lockproxy/cmd/lockproxy/dev"
	"lockproxy/cmd/lockproxy/files"
	"lockproxy/cmd/lockproxy/lifecycle"
	"lockproxy/cmd/lockproxy/limits"
	"lockproxy/cmd/lockproxy/settings"
	"lockproxy/proxy/door"
)

// program is one run of lockproxy. It is used once. Fields are set before run, or on run's goroutine, but for
// what says otherwise; state, config and manager are safe for concurrent use, ports as far as they say so.
type program struct {
	config *settings.Config
	certs  files.Certs
	// Clients is nil if requirepass is a setting, and no file
	passwords files.Passwords
	detours   files.LiveDetours
	log       *slog.Logger
	stderr    io.Writer
	audit     *auditlog.Log // nil: there is none
	state     lifecycle.State
	ports     lifecycle.Ports
	manager   *lifecycle.Manager
	hups      <-chan os.Signal                 // each asks for the settings to be reread
	settings  func() (*settings.Values, error) // reads them anew from their sources
	refused   atomic.Bool                      // those that were read last

	// starts the data plane
	connect func(ctx context.Context, p *program, upstream []string) (lifecycle.Plane, error)
	// os.Exit, but in tests
	exit func(code int)
}

func newProgram(c *settings.Config, certs files.Certs, stderr io.Writer) *program {
	log := newLogger(c, stderr)
	return &program{config: c, certs: certs, log: log, stderr: stderr, connect: connect, exit: os.Exit,
		manager: lifecycle.NewManager(log)}
}

// run serves until a signal asks for the end and then drains; a second signal
// ends the process at once. The error says why serving was not possible.
func (p *program) run(signals <-chan os.Signal) error {
	// Before anything else is started: loops and the collector ask for processors and memory when they begin.
	defer limits.SetProcs(p.log)()
	limits.LimitHeap(p.log, os.Getenv)
	p.log.Info("lockproxy starts", "version", version, "commit", buildCommit(), "pid", os.Getpid())
	// Before anybody watches the settings, so nobody sees the number that the process cannot keep.
	p.config.Fit(p.fitClients)

	asked, ask := context.WithCancel(context.Background())
	defer ask()
	// For what goes on while clients are drained: certificates and passwords may be needed until the last
	// connection has ended.
	life, end := context.WithCancel(context.Background())
	defer end()
	go p.heedSignals(life, signals, ask) // ends with run
	go p.certs.Watch(life, p.log)        // ends with run
	// A new password of clients changes no setting. Those who watch settings have to look all the same.
	p.passwords.Watch(life, p.log, p.config.Again)
	p.config.OnChange(p.passwords.Follow)
	p.config.OnChange(p.detours.Follow)
	go p.detours.Watch(life, p.config, p.log) // ends with run

	v := p.config.Values()
	var err error
	if p.audit, err = auditlog.Start(v.AuditLog, p.stderr, p.log, v.Proxy.Locks.Names); err != nil {
		return err
	}
	defer p.audit.Close()
	go p.heedReread(life) // ends with run
	if err := p.ports.Activate(v); err != nil {
		return err
	}
	p.manager.Watch(life, &p.state)
	stopAdmin, err := p.openAdmin()
	if err != nil {
		return err
	}
	defer stopAdmin()
	stopDev, upstream, err := p.startDev()
	if err != nil {
		return err
	}
	defer stopDev()
	// A signal while the upstream is looked for ends the wait, and is no error.
	err = p.startServing(asked, upstream)
	if err == nil && asked.Err() == nil {
		p.manager.Ready("serving")
		if v.Dev {
			dev.Welcome(p.stderr, p.log, v, p.ports.First("listen"), p.ports.First("admin"))
		}
	}
	// What was opened until then has clients, maybe: they are drained as always.
	if err != nil && asked.Err() == nil {
		p.drainPlane()
		return err
	}
	<-asked.Done()
	// Nothing may keep the process longer than the setting says, or whoever has sent SIGTERM sends KILL.
	late := time.AfterFunc(max(p.config.Values().DrainTimeout, toEnd), p.endAtOnce)
	defer late.Stop()
	p.drainPlane()
	p.log.Info("lockproxy ends")
	return nil
}

// heedSignals turns the first signal into a drain, behind drain-delay. The next signal ends the delay, and
// one while it drains ends the process.
func (p *program) heedSignals(life context.Context, signals <-chan os.Signal, ask func()) {
	why := ""
	select {
	case <-life.Done():
		return
	case sig := <-signals:
		why = sig.String()
	}
	p.manager.Stopping()
	delay := p.config.Values().DrainDelay
	// If nothing serves yet there are no clients that would need the time.
	if p.state.Leave() && delay > 0 {
		p.log.Info("not ready any more: draining begins later", "why", why, "delay", delay)
		select {
		case <-life.Done():
			return
		case sig := <-signals:
			why = sig.String()
		case <-time.After(delay):
		}
	}
	p.log.Info("draining", "why", why, "timeout", p.config.Values().DrainTimeout)
	ask()
	select {
	case <-life.Done():
	case sig := <-signals:
		p.log.Warn("lockproxy ends at once", "signal", sig)
		p.exit(exitFailed)
	}
}

// startServing connects to the upstream and opens the listeners. It blocks until the upstream answers or ctx
// ends.
func (p *program) startServing(ctx context.Context, upstream []string) error {
	v := p.config.Values()
	if !v.ListenEarly || v.Dev {
		return p.startClosed(ctx, upstream)
	}
	// Clients connect before there is a data plane, and are told to wait, in place of being refused by the
	// kernel, which libraries take for an error that does not pass.
	early := door.NewEarly(door.EarlyOptions{
		TLS: p.certs.Clients.Source(), MaxClients: v.Proxy.MaxClients, Log: p.log, Why: p.state.Why,
		Secret: func() bool { return !p.config.Values().Open() },
	})
	defer early.Close()
	p.state.WaitAt(early)
	for _, addr := range v.Listen {
		ln, err := p.ports.Listen("listen", addr)
		if err != nil {
			return fmt.Errorf("listen %s: %w", addr, err)
		}
		early.Serve(ln)
		p.log.Info("clients are told to wait for the upstream", "addr", ln.Addr())
	}
	// systemd would give up a start that waits for the upstream. Clients can connect, so it is ready for
	// units that need that.
	p.manager.Ready("looks for the upstream")
	pl, err := p.connect(ctx, p, upstream)
	if err != nil {
		return err
	}
	// The plane is there before it gets the clients, so /readyz and the first command agree.
	p.state.Serve(pl)
	all, err := early.Open(pl)
	p.state.WaitAt(nil)
	for _, bound := range all {
		p.log.Info("listening", "addr", bound)
	}
	return err
}

// startClosed is start with the doors closed until there is an upstream.
func (p *program) startClosed(ctx context.Context, upstream []string) error {
	pl, err := p.connect(ctx, p, upstream)
	if err != nil {
		return err
	}
	p.state.Serve(pl)
	for _, addr := range p.config.Values().Listen {
		ln, err := p.ports.Listen("listen", addr)
		if err == nil {
			err = pl.Serve(ln)
		}
		if err != nil {
			return fmt.Errorf("listen %s: %w", addr, err)
		}
		p.log.Info("listening", "addr", ln.Addr())
	}
	return nil
}

// openAdmin starts the admin HTTP, until stop. It asks for nothing of the upstream, so /readyz can say what
// is waited for.
func (p *program) openAdmin() (stop func(), err error) {
	v := p.config.Values()
	if v.Admin.Addr == "" {
		return func() {}, nil
	}
	ln, err := p.ports.Listen("admin", v.Admin.Addr)
	if err != nil {
		return nil, fmt.Errorf("admin %s: %w", v.Admin.Addr, err)
	}
	o := admin.Options{Program: adminView{&p.state, p}, Values: p.config.Values, TLS: p.certs.Admin,
		Password: p.passwords.Admin.Source(), Version: version, Commit: buildCommit(), Log: p.log}
	// a nil *Log in an interface would not be nil
	if p.audit != nil {
		o.Audit = p.audit
	}
	return admin.Serve(ln, o), nil
}

// adminView is the program as the admin listener sees it.
type adminView struct {
	*lifecycle.State
	p *program
}

// Reloads implements admin.Program.
func (s adminView) Reloads() []files.State {
	all := []files.State{{Of: "settings", Failed: s.p.refused.Load()}}
	return slices.Concat(all, s.p.certs.States(), s.p.passwords.States())
}

// toEnd is how much of drain-timeout is kept for what follows after clients are cut off.
const toEnd = 500 * time.Millisecond

// endAtOnce ends the process when drain-timeout is over, whatever is left to do.
func (p *program) endAtOnce() {
	p.log.Warn("lockproxy ends at once: drain-timeout is over")
	p.exit(exitOK)
}

// drainPlane ends the data plane in good order.
func (p *program) drainPlane() {
	pl := p.state.Drain()
	if pl == nil {
		return
	}
	limit := p.config.Values().DrainTimeout
	// A part of the time stays for what follows, or the timer of run would cut that off.
	ctx, cancel := context.WithTimeout(context.Background(), limit-min(limit/4, toEnd))
	defer cancel()
	begin := time.Now()
	if err := pl.Drain(ctx); err != nil {
		p.log.Warn("drained in part", "err", err, "took", time.Since(begin))
		return
	}
	p.log.Info("drained", "took", time.Since(begin))
}

// startDev starts the Redis of --dev, if it is asked for, and returns the addresses of the upstream. Without
// --dev stop does nothing. It is never nil if err is.
func (p *program) startDev() (stop func(), upstream []string, err error) {
	v := p.config.Values()
	if !v.Dev {
		p.log.Info("upstream", "addrs", strings.Join(v.Upstream.Addrs, ","))
		return func() {}, v.Upstream.Addrs, nil
	}
	d, err := dev.Start()
	if err != nil {
		return nil, nil, fmt.Errorf("dev: %w", err)
	}
	p.log.Warn("dev: one Redis in the memory of this process; nothing survives it, and no other proxy " +
		"shares its locks")
	return d.Close, []string{d.Addr()}, nil
}
