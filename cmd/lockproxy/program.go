package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"lockproxy/cmd/lockproxy/admin"
	"lockproxy/cmd/lockproxy/auditlog"
	"lockproxy/cmd/lockproxy/dev"
	"lockproxy/cmd/lockproxy/files"
	"lockproxy/cmd/lockproxy/limits"
	"lockproxy/cmd/lockproxy/settings"
	"lockproxy/proxy"
	"lockproxy/proxy/door"
)

// plane is the data plane as the program sees it.
type plane interface {
	Stats() proxy.Stats
	door.Successor // Serve serves one address of the setting listen until Drain
	// Turns returns nil once all event loops have had a round.
	Turns(ctx context.Context) error
	// Leave stops listening, and leaves the sockets to processes that have copies of them.
	Leave()
	// Ready says why the proxy cannot serve commands now, or nil.
	Ready() error
	// Drain takes no new clients, answers waiters and the commands that have
	// come, and ends all connections, at the latest when ctx ends.
	Drain(ctx context.Context) error
}

// program is one run of lockproxy.
type program struct {
	config    *settings.Config
	certs     files.Certs
	passwords files.Passwords
	detours   files.Detours
	log       *slog.Logger
	stderr    io.Writer
	audit     *auditlog.Log // nil: there is none
	state     state
	ports     ports
	stopAdmin func()                           // may be called more than once
	relieved  chan struct{}                    // closed when another process has taken over
	lent      bool                             // some of ports belong to the service manager
	toldReady atomic.Bool                      // the service manager was, and nothing else since
	hups      <-chan os.Signal                 // each asks for the settings to be reread
	settings  func() (*settings.Values, error) // reads them anew from their sources
	refused   atomic.Bool                      // those that were read last

	connect func(ctx context.Context, p *program, upstream []string) (plane, error) // starts the data plane
	exit    func(code int)
}

func newProgram(c *settings.Config, certs files.Certs, stderr io.Writer) *program {
	return &program{config: c, certs: certs, log: newLogger(c, stderr), stderr: stderr, connect: connect,
		exit: os.Exit, stopAdmin: func() {}, relieved: make(chan struct{})}
}

// run serves until a signal asks for the end and then drains; a second signal
// ends the process at once. The error says why serving was not possible.
func (p *program) run(signals <-chan os.Signal) error {
	defer limits.SetProcs(p.log)()
	limits.LimitHeap(p.log, os.Getenv)
	p.log.Info("lockproxy starts", "version", version, "commit", buildCommit(), "pid", os.Getpid())
	p.config.Fit(p.fit)

	asked, ask := context.WithCancel(context.Background())
	defer ask()
	over := make(chan struct{})
	defer close(over)
	go p.heed(signals, over, ask) // ends with run
	life, end := context.WithCancel(context.Background())
	defer end()
	go p.certs.Watch(life, p.log) // ends with run
	p.passwords.Clients.OnRenewal(p.config.Again)
	p.passwords.Watch(life, p.log)
	p.config.OnChange(p.passwords.Follow)
	p.detours.Follow(p.config.Values())
	p.config.OnChange(p.detours.Follow)
	go p.detours.Watch(life, p.config, p.log) // ends with run

	v := p.config.Values()
	var err error
	if p.audit, err = auditlog.Start(v.AuditLog, p.stderr, p.log, v.Proxy.Locks.Names); err != nil {
		return err
	}
	defer p.audit.Close()
	go p.heedReread(p.hups, over) // ends with run
	if err := p.activated(); err != nil {
		return err
	}
	old, err := p.takeOver()
	if err != nil {
		return err
	}
	p.startWatchdog(life)
	if old == nil { // until this process serves, the admin listener is that of the old one
		if err := p.openAdmin(); err != nil {
			return err
		}
	}
	defer func() { p.stopAdmin() }()
	stopDev, upstream, err := p.startDev()
	if err != nil {
		return err
	}
	defer stopDev()
	err = p.start(asked, upstream, old != nil)
	stopTakeover := func() {}
	if err == nil && asked.Err() == nil {
		stopTakeover, err = p.succeed(life, old)
	}
	defer stopTakeover()
	if err == nil && asked.Err() == nil {
		p.ready("serving")
		p.welcome()
	}
	if err != nil && asked.Err() == nil {
		p.drain()
		return err
	}
	<-asked.Done()
	late := time.AfterFunc(max(p.config.Values().DrainTimeout, toEnd), p.end)
	defer late.Stop()
	p.drain()
	p.log.Info("lockproxy ends")
	return nil
}

// heed turns the first signal, or a takeover, into a drain, behind drain-delay. The next signal ends the
// delay, and one while it drains ends the process.
func (p *program) heed(signals <-chan os.Signal, over <-chan struct{}, ask func()) {
	delay, why := time.Duration(0), ""
	select {
	case <-over:
		return
	case sig := <-signals:
		why = sig.String()
	case <-p.relieved:
		delay, why = settle, "takeover"
	}
	p.stopping()
	delay = max(delay, p.config.Values().DrainDelay)
	if p.state.leave() && delay > 0 {
		p.log.Info("not ready any more: draining begins later", "why", why, "delay", delay)
		select {
		case <-over:
			return
		case sig := <-signals:
			why = sig.String()
		case <-time.After(delay):
		}
	}
	p.log.Info("draining", "why", why, "timeout", p.config.Values().DrainTimeout)
	ask()
	select {
	case <-over:
	case sig := <-signals:
		p.log.Warn("lockproxy ends at once", "signal", sig)
		p.exit(exitFailed)
	}
}

// start connects to the upstream and opens the listeners; served: another process serves them meanwhile. It
// blocks until the upstream answers or ctx ends.
func (p *program) start(ctx context.Context, upstream []string, served bool) error {
	v := p.config.Values()
	if !v.ListenEarly || v.Dev || served {
		return p.startClosed(ctx, upstream)
	}
	early := door.NewEarly(door.EarlyOptions{
		TLS: p.certs.Clients.Source(), MaxClients: v.Proxy.MaxClients, Log: p.log, Why: p.state.why,
		Secret: func() bool { return !p.config.Values().Open() },
	})
	defer early.Close()
	p.state.waitAt(early)
	for _, addr := range v.Listen {
		ln, err := p.ports.listen("listen", addr)
		if err != nil {
			return fmt.Errorf("listen %s: %w", addr, err)
		}
		early.Serve(ln)
		p.log.Info("clients are told to wait for the upstream", "addr", ln.Addr())
	}
	p.ready("looks for the upstream")
	pl, err := p.connect(ctx, p, upstream)
	if err != nil {
		return err
	}
	p.state.set(pl)
	all, err := early.Open(pl)
	p.state.waitAt(nil)
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
	p.state.set(pl)
	for _, addr := range p.config.Values().Listen {
		ln, err := p.ports.listen("listen", addr)
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

// openAdmin starts the admin HTTP, until stopAdmin.
func (p *program) openAdmin() error {
	v := p.config.Values()
	if v.Admin == "" {
		return nil
	}
	ln, err := p.ports.listen("admin", v.Admin)
	if err != nil {
		return fmt.Errorf("admin %s: %w", v.Admin, err)
	}
	o := admin.Options{Program: shown{&p.state, p}, Values: p.config.Values, TLS: p.certs.Admin,
		Password: p.passwords.Admin.Source(), Version: version, Commit: buildCommit(), Log: p.log}
	if p.audit != nil {
		o.Audit = p.audit
	}
	p.stopAdmin = sync.OnceFunc(admin.Serve(ln, o))
	return nil
}

// shown is the program as the admin listener sees it.
type shown struct {
	*state
	p *program
}

// Reloads implements admin.Program.
func (s shown) Reloads() []files.State {
	all := []files.State{{Of: "settings", Failed: s.p.refused.Load()}}
	return slices.Concat(all, s.p.certs.States(), s.p.passwords.States())
}

// toEnd is how much of drain-timeout is kept for what follows after clients are cut off.
const toEnd = 500 * time.Millisecond

// end ends the process when drain-timeout is over, whatever is left to do.
func (p *program) end() {
	p.log.Warn("lockproxy ends at once: drain-timeout is over")
	p.exit(exitOK)
}

// drain ends the data plane in good order.
func (p *program) drain() {
	p.ports.close()
	pl := p.state.drain()
	if pl == nil {
		return
	}
	if p.lent {
		pl.Leave()
	}
	limit := p.config.Values().DrainTimeout
	ctx, cancel := context.WithTimeout(context.Background(), limit-min(limit/4, toEnd))
	defer cancel()
	begin := time.Now()
	if err := pl.Drain(ctx); err != nil {
		p.log.Warn("drained in part", "err", err, "took", time.Since(begin))
		return
	}
	p.log.Info("drained", "took", time.Since(begin))
}

// startDev starts the Redis of --dev, if it is asked for, and returns the
// addresses of the upstream.
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

var errStarting = errors.New("starting: the upstream's topology is not known yet")
