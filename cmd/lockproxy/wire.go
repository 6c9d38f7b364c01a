package main

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"lockproxy/cluster"
	"lockproxy/commands"
	"lockproxy/internal/resp"
	"lockproxy/proxy"
	"lockproxy/redlock"
)

// wired is the real data plane.
type wired struct {
	*proxy.Server
	masters []*cluster.Master  // of RedLock
	forget  context.CancelFunc // ends the watch over the upstream
}

// leave ends what the Server was given.
func (w *wired) leave() {
	w.forget()
	for _, m := range w.masters {
		m.Close()
	}
}

// connect finds the upstream and starts the data plane before it. It blocks until
// the upstream answers or ctx ends.
func connect(ctx context.Context, p *program, upstream []string) (plane, error) {
	v := p.config.Values()
	up, err := cluster.Discover(ctx, upstreamOptions(p, v, upstream))
	if err != nil {
		return nil, err
	}
	life, forget := context.WithCancel(context.Background())
	go up.Run(life) // ends in Drain
	masters, err := connectMasters(ctx, p, v)
	if err != nil {
		forget()
		return nil, err
	}
	o := proxyOptions(p, v, up)
	o.Redlock.Masters = masters
	w := &wired{masters: masters, forget: forget}
	if w.Server, err = proxy.New(ctx, o); err != nil {
		w.leave()
		return nil, err
	}
	srv := w.Server
	p.config.OnChange(func(v *Values) {
		srv.SetPassword(v.RequirePass)
		srv.SetMaxClients(v.MaxClients)
		srv.SetIdleTimeout(v.Timeout)
		srv.SetAuthTimeout(v.AuthTimeout)
		srv.SetKeepAlive(orNever(v.TCPKeepAlive))
		srv.SetLimits(limits(v))
		srv.SetOutputLimits(v.OutputLimits.wired())
		srv.SetMaxMemory(v.MaxMemory.of(memoryHere()))
	})
	return w, nil
}

func upstreamOptions(p *program, v *Values, addrs []string) cluster.Options {
	return cluster.Options{
		Addrs: addrs,
		User:  v.UpstreamUser, Password: v.UpstreamPassword, TLS: p.certs.upstream.source(),
		SentinelMaster: v.SentinelMaster, SentinelUser: v.SentinelUser, SentinelPassword: v.SentinelPassword,
		Refresh: v.TopologyRefresh, ConnectTimeout: v.ConnectTimeout,
		Log: p.log,
	}
}

// connectMasters reaches the masters of RedLock, if there are to be any. It blocks until most of
// them answer or ctx ends.
func connectMasters(ctx context.Context, p *program, v *Values) ([]*cluster.Master, error) {
	if len(v.Redlock) == 0 {
		return nil, nil
	}
	var scripts [][]byte
	for _, s := range redlock.Scripts() {
		scripts = append(scripts, []byte(s.Source))
	}
	all, err := cluster.ConnectMasters(ctx, v.Redlock, cluster.MasterOptions{
		User: v.RedlockUser, Password: v.RedlockPassword, TLS: p.certs.upstream.source(), ConnectTimeout: v.ConnectTimeout,
		Timeout: v.RedlockNodeTimeout, Lease: v.redlockLongest(), Scripts: scripts, Log: p.log,
	})
	if err != nil {
		return nil, fmt.Errorf("redlock: %w", err)
	}
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
	if missing := len(all)/2 + 1 - votes; missing > 0 && missing <= len(until) {
		slices.SortFunc(until, time.Time.Compare)
		p.log.Warn("redlock: no lock is granted yet, for masters that restarted may have forgotten some; "+
			"those with appendonly yes and appendfsync always need not wait when they restart later, and a shorter redlock-max-lease makes the wait shorter",
			"until", until[missing-1].Round(time.Second), "redlock-max-lease", v.redlockLongest())
	}
	return all, nil
}

// redlockLongest is the longest lease of a lock over the masters of RedLock.
func (v *Values) redlockLongest() time.Duration { return min(v.RedlockMaxLease, v.LockMaxLease) }

func proxyOptions(p *program, v *Values, up *cluster.Upstream) proxy.Options {
	return proxy.Options{
		Upstream:    up,
		Loops:       v.Loops,
		Password:    v.RequirePass,
		UsersOnly:   v.usersOnly(),
		MaxClients:  v.MaxClients,
		IdleTimeout: v.Timeout,
		AuthTimeout: v.AuthTimeout,
		KeepAlive:   orNever(v.TCPKeepAlive),
		Limits:      limits(v),
		Output:      v.OutputLimits.wired(),
		MaxMemory:   v.MaxMemory.of(memoryHere()),
		Refused:     v.RefusedCommands,
		MaxPipeline: v.MaxPipeline,
		ScriptCache: v.ScriptCache,
		MaxOwn:      v.OwnConnections,
		Pipes: cluster.PipeOptions{
			QueueLimit: int(v.QueueLimit), ConnectTimeout: v.ConnectTimeout,
			Timeout: v.UpstreamTimeout, Budget: max(v.RetryBudget, 1), // 0 would mean the default
			Log: p.log,
		},
		Locks: redlock.Options{
			Prefix: v.LockPrefix, Lease: v.LockLease, MaxLease: v.LockMaxLease,
			MaxWait: v.LockMaxWait, MaxQueue: v.LockMaxQueue, MaxReaders: v.LockMaxReaders, MaxKept: v.LockMaxKept,
			Sync: v.LockSync, SyncTimeout: v.LockSyncTimeout, FailoverGrace: v.LockFailoverGrace, Log: p.log,
		},
		Redlock:      proxy.Redlock{Prefixes: v.RedlockPrefix, NodeTimeout: v.RedlockNodeTimeout, MaxLease: v.redlockLongest()},
		ReplicaReads: replicaReads[v.ReplicaReads], ClusterMode: v.ClusterMode, Announce: v.ClusterAnnounce,
		LockNames: v.LockStatsNames,
		Config:    p.config, ConfigFile: v.ConfigFile,
		TLS: p.certs.clients.source(), Version: version, Log: p.log,
	}
}

// replicaReads are the choices of the setting.
var replicaReads = map[string]commands.ReplicaReads{
	"no": commands.ReadsAtMaster, "readonly": commands.ReadsOnRequest,
	"replica-preferred": commands.ReadsPreferred, "any": commands.ReadsAnywhere,
}

func limits(v *Values) resp.Limits {
	return resp.Limits{Args: v.MaxMultiBulk, Bulk: int(v.MaxBulk), Inline: int(v.MaxInline), Command: int(v.QueryBufferLimit)}
}

// orNever turns the setting's 0, which switches something off, into what means
// that to Options, whose 0 is a default.
func orNever(d time.Duration) time.Duration {
	if d == 0 {
		return -1
	}
	return d
}

// wired are the limits for the data plane, whose 0 is a default.
func (l OutputLimits) wired() proxy.OutputLimits {
	wire := func(l OutputLimit) proxy.OutputLimit {
		if l.Hard == 0 {
			l.Hard = math.MaxInt
		}
		return proxy.OutputLimit{Hard: int(l.Hard), Soft: int(l.Soft), SoftFor: time.Duration(l.Seconds) * time.Second}
	}
	return proxy.OutputLimits{Normal: wire(l.Normal), PubSub: wire(l.PubSub)}
}

// Drain implements plane.
func (w *wired) Drain(ctx context.Context) error {
	defer w.leave()
	return w.Server.Drain(ctx)
}
