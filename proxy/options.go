package proxy

import (
	"cmp"
	"context"
	"crypto/tls"
	"log/slog"
	"reflect"
	"time"

	"lockproxy/cluster"
	"lockproxy/cluster/discovery"
	"lockproxy/cluster/master"
	"lockproxy/cluster/pipe"
	"lockproxy/commands"
	"lockproxy/commands/routes"
	"lockproxy/internal/resp"
	"lockproxy/internal/subscription"
	"lockproxy/proxy/pubsub"
	"lockproxy/redlock/locks"
	"lockproxy/redlock/quorum"
)

// Upstream is what a Server needs of the upstream's control plane;
// *discovery.Upstream is one. Safe for concurrent use.
type Upstream interface {
	pipe.Control
	// OnChange has f called with each new topology. f does not block.
	OnChange(f func(*cluster.Topology))
	// Command returns the reply of COMMAND.
	Command(ctx context.Context) ([]byte, error)
	// Limits are those of the masters for one client, as far as they tell.
	Limits(ctx context.Context) discovery.Limits
	// Ready says why commands can probably not be served now, or nil.
	Ready() error
	// WatchReplicas has the replicas looked after, so that Topology.Readers tells which may be read from.
	WatchReplicas()
}

// PubSub is the subscriptions at the upstream. Safe for concurrent use.
type PubSub interface {
	pubsub.Upstream
	// Subscribe listens on a channel of slot until cancel is called.
	Subscribe(
		ctx context.Context,
		slot int,
		channel string,
		notify func(subscription.Event),
	) (cancel func(), err error)
}

// Options configure a Server. Zero values mean those of DefaultOptions; Upstream is
// required.
type Options struct {
	Upstream     Upstream
	PubSub       PubSub        // the subscriptions at Upstream; nil: the Server makes them
	Loops        int           // event loops; 0: half the processors, at least 1
	Portable     bool          // loops that serve any net.Conn, as tests in fake time need
	Password     string        // clients must AUTH with it; "": they need not
	UsersOnly    bool          // clients must AUTH as users of the upstream; Password is ""
	MaxClients   int           // connected at a time
	IdleTimeout  time.Duration // a client silent for so long is closed; 0: never
	AuthTimeout  time.Duration // who must authenticate and has not after so long is closed; 0: never
	KeepAlive    time.Duration // TCP keep-alive; negative: never
	Limits       resp.Limits   // of one command
	Output       OutputLimits  // of what waits for one client
	MaxMemory    int64         // bytes that all clients together may take; 0: any number
	MaxPipeline  int           // commands of one client on their way at once
	ScriptCache  int           // script sources remembered to heal nodes that lost them
	MaxOwn       int           // upstream connections that are not shared, of all loops together
	Pipes        pipe.Options  // MaxOwn 0: a loop's share of the one above
	Locks        locks.Options
	Redlock      Redlock               // what locks RedLock has; the zero value: none
	ClusterMode  bool                  // looks like a Redis Cluster to its clients
	Announce     []string              // host:port of the proxies that share the slots, itself first
	ReplicaReads commands.ReplicaReads // whose reads go to replicas
	LockNames    int                   // locks that LOCKCTL STATS counts one by one; 0: none
	Refused      []string              // commands that are refused by name, "container|sub" for a subcommand
	Config       commands.Config       // CONFIG GET and SET; nil: those of the upstream alone
	ConfigFile   string                // of the settings, for INFO
	TLS          func() *tls.Config    // of the listening side, asked for each new client; nil: plain
	Version      string                // of lockproxy, for INFO
	Log          *slog.Logger
	WatchRounds  func() // at the end of each round of a loop, on it, for who measures them; nil: nobody does
}

// Redlock are the locks that several independent masters keep.
type Redlock struct {
	Masters     []*master.Master // an odd number, of whoever made them; none: there is no RedLock
	Prefixes    []string         // what the names of its locks begin with; none: all are its
	NodeTimeout time.Duration    // for one request to one master
	MaxLease    time.Duration    // the longest that may be asked for; 0: as of other locks
}

// DefaultOptions are the defaults, also of what a Server is made of.
func DefaultOptions() Options {
	o := Options{
		MaxClients:  10_000,
		KeepAlive:   300 * time.Second,
		MaxPipeline: 1024,
		ScriptCache: 10_000,
		MaxOwn:      4096,
		Limits:      resp.DefaultLimits(), Output: DefaultOutputLimits(), Refused: routes.RefusedByDefault(),
		Pipes: pipe.DefaultOptions(), Locks: locks.DefaultOptions(),
		Redlock: Redlock{NodeTimeout: quorum.DefaultNodeTimeout}, Config: noSettings{},
		Log: slog.New(slog.DiscardHandler),
	}
	o.Pipes.MaxOwn = 0 // a loop's share
	return o
}

// withDefaults has the defaults where o has nothing.
func (o Options) withDefaults() Options {
	d := DefaultOptions()
	o.Pipes.Log = cmp.Or(o.Pipes.Log, o.Log, d.Log)
	own, defaults := reflect.ValueOf(&o).Elem(), reflect.ValueOf(d)
	for i := range own.NumField() {
		if own.Field(i).IsZero() {
			own.Field(i).Set(defaults.Field(i))
		}
	}
	o.Output = o.Output.withDefaults()
	o.Redlock.NodeTimeout = cmp.Or(o.Redlock.NodeTimeout, d.Redlock.NodeTimeout)
	return o
}
