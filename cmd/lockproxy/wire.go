package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"lockproxy/cluster/discovery"
	"lockproxy/cluster/master"
	"lockproxy/cmd/lockproxy/lifecycle"
	"lockproxy/cmd/lockproxy/limits"
	"lockproxy/cmd/lockproxy/settings"
	"lockproxy/internal/loop"
	"lockproxy/proxy"
	"lockproxy/redlock/scripts"
)

// wired is the real data plane.
type wired struct {
	*proxy.Server
	forget context.CancelFunc // ends the refreshes of the upstream
}

// connect finds the upstream and starts the data plane before it. It blocks until
// the upstream answers or ctx ends.
func connect(ctx context.Context, p *program, upstream []string) (lifecycle.Plane, error) {
	v := p.config.Values()
	up, err := discovery.Find(ctx, upstreamOptions(p, v, upstream))
	if err != nil {
		return nil, err
	}
	// From here on it waits for the masters of RedLock, if for anything.
	p.state.Waits(nil)
	// Not ctx, which ends when the drain begins: while clients are drained their commands need a topology
	// that is fresh.
	life, forget := context.WithCancel(context.Background())
	go up.Run(life) // ends in Drain
	o := proxyOptions(p, v, up)
	if len(v.Redlock) > 0 {
		o.Redlock.Connect = func(ctx context.Context, l *loop.Loop) ([]*master.Master, error) {
			return connectMasters(ctx, p, v, l)
		}
	}
	w := &wired{forget: forget}
	if w.Server, err = proxy.New(ctx, o); err != nil {
		forget()
		return nil, err
	}
	// Called at once as well: what has changed since v was read is not lost.
	p.config.OnChange(func(v *settings.Values) { w.Change(proxyOptions(p, v, up)) })
	return w, nil
}

// upstreamOptions adds to the settings what only the program has: sources of certificates and passwords, the
// log.
func upstreamOptions(p *program, v *settings.Values, addrs []string) discovery.Options {
	o := v.Upstream
	o.Addrs, o.TLS, o.Log, o.Failed = addrs, p.certs.Upstream.Source(), p.log, p.state.Waits
	o.Detour = p.detours.Of
	o.Logins, o.SentinelLogins = p.passwords.Upstream.Source(), p.passwords.Sentinel.Source()
	return o
}

// connectMasters connects to the masters of RedLock, on l. It blocks until most of them answer or ctx ends.
func connectMasters(
	ctx context.Context, p *program, v *settings.Values, l *loop.Loop,
) ([]*master.Master, error) {
	o := v.Masters
	o.TLS, o.ConnectTimeout, o.Log = p.certs.Upstream.Source(), v.Upstream.ConnectTimeout, p.log
	o.AllowEviction = v.Proxy.AllowEviction
	o.Logins = p.passwords.Redlock.Source()
	o.Failed = p.state.Waits
	o.Timeout, o.Lease = v.Proxy.Redlock.NodeTimeout, v.LongestRedlockLease()
	// Loaded when a connection is made, so a vote is one EVALSHA and never waits for a source to be sent.
	for _, s := range scripts.All() {
		o.Scripts = append(o.Scripts, []byte(s.Source))
	}
	all, err := master.Connect(ctx, l, v.Redlock, o)
	if err != nil {
		return nil, fmt.Errorf("redlock: %w", err)
	}
	// votes are masters that count now; until has when each of the others will, as far as that is known.
	votes, until := 0, []time.Time{}
	for _, m := range all {
		h := m.Health()
		switch {
		case h.Votes:
			votes++
		case !h.Until.IsZero():
			until = append(until, h.Until)
		}
	}
	// When so many more vote as are missing, locks are granted: the missing-th of the times, in order.
	if missing := len(all)/2 + 1 - votes; missing > 0 && missing <= len(until) {
		slices.SortFunc(until, time.Time.Compare)
		p.log.Warn("redlock: no lock is granted yet, for masters that restarted may have forgotten some; "+
			"those with appendonly yes and appendfsync always need not wait when they restart later, and "+
			"a shorter redlock-max-lease makes the wait shorter",
			"until", until[missing-1].Round(time.Second), "redlock-max-lease", v.LongestRedlockLease())
	}
	return all, nil
}

// proxyOptions adds to the settings what only the program has.
func proxyOptions(p *program, v *settings.Values, up *discovery.Upstream) proxy.Options {
	o := v.Proxy
	o.Upstream, o.Config, o.TLS, o.Version = up, p.config, p.certs.Clients.Source(), version
	o.Log, o.Pipes.Log, o.Locks.Log = p.log, p.log, p.log
	// With requirepass-file the password stands in no setting, and the file says it anew at each change.
	if logins := p.passwords.Clients.Source(); logins != nil {
		o.Password = logins.Now().Password
	}
	if p.audit != nil {
		o.Audit = p.audit
	}
	// The Redis of --dev lacks commands by nature, and nobody could allow them.
	o.TellNeeds, o.Failed, o.Same = !v.Dev, p.state.Waits, v.Same()
	o.MaxMemory = v.MaxMemory.Of(limits.Memory())
	o.Pipes.ConnectTimeout = v.Upstream.ConnectTimeout
	// 0 would mean the default; in the settings it switches something off.
	o.KeepAlive, o.Pipes.Budget = cmp.Or(o.KeepAlive, -1), max(o.Pipes.Budget, 1)
	o.Redlock.MaxLease = v.LongestRedlockLease()
	return o
}

// Turns implements lifecycle.Plane.
func (w *wired) Turns(ctx context.Context) error { return proxy.Turns(ctx, w.Server) }

// Drain implements lifecycle.Plane.
func (w *wired) Drain(ctx context.Context) error {
	defer w.forget()
	return w.Server.Drain(ctx)
}

// View is the data plane as the page sees it.
func (w *wired) View() proxy.View { return proxy.ViewOf(w.Server) }
