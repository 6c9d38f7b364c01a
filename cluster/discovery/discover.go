package discovery

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"lockproxy/cluster"
)

// Options say where the upstream is and how to reach it. All but Addrs may be
// left zero, which means those of DefaultOptions.
type Options struct {
	Addrs          []string        // host:port or paths of unix sockets: any nodes, or Sentinels
	User, Password string          // of the Redis nodes
	Logins         *cluster.Logins // in their place, if they are renewed; nil: they are not
	// TLS is called for each new connection; nil: no TLS. An empty ServerName stands for the host dialled.
	TLS func() *tls.Config

	SentinelMaster                 string // "": the only one that the Sentinels watch
	SentinelUser, SentinelPassword string
	SentinelLogins                 *cluster.Logins // as Logins

	Zone string // only replicas that say they are in it are read from; "": any

	Refresh        time.Duration // how often the topology is asked for while nothing hints at a change
	ConnectTimeout time.Duration // to connect and log in
	KeepAlive      time.Duration // silence after which the kernel probes a peer
	Log            *slog.Logger
	// Find calls it with the error of each failed attempt; nil: nothing
	Failed func(error)
	// Detour is where a node is reached that announces addr; nil: there.
	Detour func(addr string) string
	// Dial dials; nil: net.Dialer does.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
}

// DefaultOptions are the defaults.
func DefaultOptions() Options {
	return Options{
		Refresh: time.Second, ConnectTimeout: cluster.ConnectTimeout, KeepAlive: cluster.KeepAlive,
		Log: slog.New(slog.DiscardHandler), Failed: func(error) {},
	}
}

func (o Options) withDefaults() Options {
	d := DefaultOptions()
	o.Refresh = cmp.Or(o.Refresh, d.Refresh)
	o.ConnectTimeout = cmp.Or(o.ConnectTimeout, d.ConnectTimeout)
	o.KeepAlive = cmp.Or(o.KeepAlive, d.KeepAlive)
	o.Log = cmp.Or(o.Log, d.Log)
	if o.Failed == nil {
		o.Failed = d.Failed
	}
	if o.Logins == nil {
		o.Logins = cluster.NewLogins(cluster.Login{User: o.User, Password: o.Password})
	}
	if o.SentinelLogins == nil {
		as := cluster.Login{User: o.SentinelUser, Password: o.SentinelPassword}
		o.SentinelLogins = cluster.NewLogins(as)
	}
	return o
}

// dialer is the Dialer of these options, all of which must be set.
func (o *Options) dialer() *cluster.Dialer {
	return &cluster.Dialer{
		Logins: o.Logins, TLS: o.TLS, ConnectTimeout: o.ConnectTimeout, KeepAlive: o.KeepAlive,
		Log: o.Log, Net: o.Dial, Detour: o.Detour,
	}
}

// Find finds out what the nodes at Options.Addrs are and learns the
// topology. It tries all of them again and again until one can be used or ctx
// ends, and gives up earlier only when every one of them answered and refused, as
// with a wrong password. The error is then a *DiscoverError. The first failure is logged at once, and
// then one each ten seconds. The caller goes on with Upstream.Run, or Upstream.Close.
func Find(ctx context.Context, o Options) (*Upstream, error) {
	if len(o.Addrs) == 0 {
		return nil, errors.New("cluster: no upstream node was named")
	}
	u := newUpstream(o)
	// go-redis has one logger for the whole process, and would write to stderr.
	redis.SetLogger(redisLog{u.o.Log})
	// last is the latest error that says something; said is when the log was told of one.
	var last error
	var said time.Time
	began := time.Now()
	for pause := 50 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		err := u.discover(ctx)
		if err == nil {
			if !said.IsZero() {
				u.o.Log.Info("the upstream can be used now", "after",
					time.Since(began).Round(time.Millisecond))
			}
			return u, nil
		}
		if ctx.Err() == nil || last == nil {
			last = err // an attempt that was cut short has learnt less than the one before
			u.o.Failed(err)
		}
		if failed, ok := errors.AsType[*cluster.DiscoverError](err); ok && failed.Final() {
			u.Close()
			return nil, err
		}
		if ctx.Err() == nil && time.Since(said) >= reminder {
			said = time.Now()
			u.o.Log.Warn("the upstream cannot be used yet", "err", err,
				"for", said.Sub(began).Round(time.Millisecond))
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			u.Close()
			return nil, last
		}
	}
}

// reminder is how often something that lasts is logged again.
const reminder = 10 * time.Second

// discover is one attempt. It runs before Run, so it may write what belongs to the goroutine that refreshes.
func (u *Upstream) discover(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, u.o.ConnectTimeout)
	defer cancel()
	// All must answer: only both of two unrelated masters can reveal that mistake.
	found, failed := gather(ctx, u.asker, u.o.Addrs, nil, patience, u.identifyNode)
	if len(found) == 0 {
		return &cluster.DiscoverError{Failed: failed}
	}
	is := func(mode string) bool {
		return slices.ContainsFunc(found, func(i identity) bool { return i.server.Mode == mode })
	}
	switch {
	case is("cluster"):
		u.kind = cluster.Cluster
	case is("sentinel"):
		u.kind = cluster.Sentinel
		for _, i := range found {
			// A password of theirs that is renewed may differ from that of the upstream later.
			if i.server.Mode == "sentinel" && !u.o.SentinelLogins.Now().Renewed {
				u.sentinelLogins = i.as
			}
		}
	default:
		u.kind = cluster.Single
	}
	// The settings are meant for another upstream.
	if u.o.SentinelMaster != "" && u.kind != cluster.Sentinel {
		return &cluster.DiscoverError{Failed: []cluster.NodeError{{Addr: found[0].addr,
			Err: cluster.Refusal("it is no Sentinel, but the name of a Sentinel's master is set")}}}
	}
	if err := u.lookUpstream(ctx); err != nil {
		return err
	}
	if u.kind == cluster.Cluster {
		// Once more, now that all masters are known, because their versions count.
		return u.lookCluster(ctx, u.candidates(), nil)
	}
	return nil
}

// identity is what a node says of itself. It is read from INFO, or from HELLO where INFO is forbidden.
type identity struct {
	addr     string
	as       *cluster.Logins // the login that was accepted
	server   cluster.Server
	master   bool
	follows  string   // the address of its master; "": it is a master, or does not say
	replicas []string // addresses of those that are connected to it
}

// identifyNode asks the node at addr what it is. A Sentinel may have a login of its own. If its own login is
// refused, that of the Sentinels is tried; but what it lets in then counts only for a Sentinel, for a Redis
// node would be used with the login of the upstream.
func (u *Upstream) identifyNode(ctx context.Context, addr string) (identity, error) {
	// It is not known yet which of them it is, so that of the nodes goes first.
	logins := []*cluster.Logins{u.o.Logins}
	// The same login would only be refused twice.
	if *u.sentinelLogins.Now() != *u.o.Logins.Now() {
		logins = append(logins, u.sentinelLogins)
	}
	var first error
	for _, as := range logins {
		i, err := u.identifyAs(ctx, addr, as)
		if err == nil && (as == logins[0] || i.server.Mode == "sentinel") {
			return i, nil
		}
		first = cmp.Or(first, err)
		if err != nil && !cluster.RefusesLogin(err.Error()) {
			break
		}
	}
	return identity{}, first
}

// identifyAs is identifyNode with one login. Where INFO is forbidden, HELLO tells whether the node is a
// master, but not of whom it is a replica.
func (u *Upstream) identifyAs(ctx context.Context, addr string, as *cluster.Logins) (identity, error) {
	answers, err := u.asker.askNode(ctx, addr, as, append(slices.Clone(cluster.ServerQuestions),
		[]any{"INFO", "replication"})...)
	if err != nil {
		return identity{}, err
	}
	info, hello, replication := answers[0], answers[1], answers[3]
	if info.IsError() && hello.IsError() {
		return identity{}, cluster.Said(string(info.Str))
	}
	if err := cluster.Unsuited(info); err != nil {
		return identity{}, err
	}
	i := identity{addr: addr, as: as, server: cluster.ServerOf(answers[:3]...)}
	if info.IsError() { // it is forbidden or unknown
		i.master = cluster.Pairs(hello)["role"] != "replica"
		return i, nil
	}
	i.master = cluster.Field(replication, "role") != "slave"
	host, port := cluster.Field(replication, "master_host"), cluster.Field(replication, "master_port")
	if follows, ok := cluster.AddrOf(host, port); ok && !i.master {
		i.follows = follows
	}
	for line := range strings.Lines(replication.Text()) {
		// slave0:ip=10.0.0.2,port=6379,state=online,offset=14,lag=0
		name, line, _ := strings.Cut(strings.TrimSpace(line), ":")
		number, is := strings.CutPrefix(name, "slave")
		// "slave_repl_offset" and others begin so as well.
		if _, err := strconv.Atoi(number); !is || err != nil || len(i.replicas) == cluster.MostNodes {
			continue
		}
		at := make(map[string]string)
		for part := range strings.SplitSeq(line, ",") {
			key, value, _ := strings.Cut(part, "=")
			at[key] = value
		}
		if addr, ok := cluster.AddrOf(at["ip"], at["port"]); ok {
			i.replicas = append(i.replicas, addr)
		}
	}
	return i, nil
}
