package proxy

import (
	"cmp"
	"context"
	"crypto/tls"
	"log/slog"
	"reflect"
	"time"

	"lockproxy/cluster"
	"lockproxy/cluster/master"
	"lockproxy/cluster/pipe"
	"lockproxy/commands"
	"lockproxy/commands/routes"
	"lockproxy/internal/lockevent"
	"lockproxy/internal/loop"
	"lockproxy/internal/resp"
	"lockproxy/internal/subscription"
	"lockproxy/proxy/door"
	"lockproxy/proxy/masters"
	"lockproxy/proxy/memory"
	"lockproxy/proxy/pubsub"
	"lockproxy/redlock/locks"
	"lockproxy/redlock/quorum"
)

// Upstream is what a Server needs of the upstream's control plane; *discovery.Upstream implements it. Safe
// for concurrent use. All that may block takes a context; the rest answers from what is known now.
type Upstream interface {
	pipe.Control
	masters.Upstream
	// Command returns the reply of COMMAND.
	Command(ctx context.Context) ([]byte, error)
	// Limits are the masters' limits for one client, as far as they tell.
	Limits(ctx context.Context) cluster.Limits
	// Ready returns the reason why some commands can probably not be served now, or nil.
	Ready() error
	// Serves says whether any command can probably be served now.
	Serves() bool
	// WatchReplicas starts looking after the replicas: Topology.Readers then has those that may be read from.
	WatchReplicas()
}

// PubSub is the subscriptions at the upstream. Safe for concurrent use.
type PubSub interface {
	pubsub.Upstream
	// Subscribe listens on a channel of slot until cancel is called.
	Subscribe(slot int, channel string, notify func(subscription.Change)) (cancel func())
}

// Options configure a Server. Zero values mean those of DefaultOptions; Upstream and Config are required.
type Options struct {
	Upstream Upstream
	PubSub   PubSub // the subscriptions at Upstream; nil: the Server makes them
	Loops    int    // event loops; 0: half the processors, at least 1
	Portable bool   // the loops serve any net.Conn, as tests in fake time need
	Settings        // which may change while the Server runs
	LockOptions
	UsersOnly    bool                  // clients must AUTH as users of the upstream; Password must be ""
	ScriptCache  int                   // script sources that are remembered, for nodes that lost them
	MaxOwn       int                   // upstream connections that are not shared, of all loops together
	Pipes        pipe.Options          // MaxOwn 0: the loop's share of MaxOwn above
	ClusterMode  bool                  // the proxy looks like a Redis Cluster to its clients
	Announce     []string              // host:port of the proxies that share the slots, this one first
	ReplicaReads commands.ReplicaReads // whose reads go to replicas
	Refused      []string              // commands that are refused by name, "container|sub" for a subcommand
	Config       commands.Config       // CONFIG GET and SET
	ConfigFile   string                // of the settings, shown by INFO
	TLS          func() *tls.Config    // of the listening side, asked for each new client; nil: no TLS
	TellNeeds    bool                  // log at the start which needed commands the upstream forbids
	Version      string                // of lockproxy, shown by INFO
	Log          *slog.Logger
	Failed       func(error) // called by New with why it has to wait; nil: not called
	// called at the end of each round of a loop, on that loop, for measurements; nil: not called
	WatchRounds func()
}

// LockOptions are those of locks, of all that keep them.
type LockOptions struct {
	Locks         locks.Options
	Redlock       Redlock           // which locks RedLock has; the zero value: none
	Compat        []string          // prefixes of the locks that have the form of other libraries
	Same          map[string]string // settings, by name, that all must have alike who share locks
	Fleet         string            // those who share them have the same
	AllowEviction bool              // locks are kept at masters that may evict them
	LockNames     int               // locks that LOCKCTL STATS counts one by one; 0: none
	LockPrefixes  []string          // of the names of locks whose times are measured separately
	MaxNotify     int               // waits for locks with NOTIFY at a time
	LockEvents    bool              // what happens to locks is published, for LOCKCTL WATCH
	Audit         Audit             // nil: there is no audit log
}

// Audit is the audit log. Safe for concurrent use; nothing of it blocks.
type Audit interface {
	Note(e lockevent.Event)
	Counts() (written, lost uint64)
}

// Redlock configures the locks that independent masters keep.
type Redlock struct {
	// Connect connects to the masters, an odd number, on l. New calls it, and the Server closes them. nil:
	// there is no RedLock.
	Connect     func(ctx context.Context, l *loop.Loop) ([]*master.Master, error)
	Prefixes    []string      // prefixes of the names of its locks; none: it has all locks
	NodeTimeout time.Duration // for one request to one master
	MaxLease    time.Duration // the longest lease; 0: as for other locks
}

// LeastLeases is how many of Redlock.NodeTimeout fit into a lease at least.
const LeastLeases = quorum.LeastLeases

// DefaultOptions are the defaults of a Server and of its parts.
func DefaultOptions() Options {
	o := Options{
		Settings: Settings{
			LiveSettings: door.LiveSettings{MaxClients: 10_000, KeepAlive: 300 * time.Second},
			Limits:       resp.DefaultLimits(), Output: memory.DefaultLimits(), MaxPipeline: 1024,
		},
		LockOptions: LockOptions{
			Locks: locks.DefaultOptions(), Redlock: Redlock{NodeTimeout: quorum.DefaultNodeTimeout},
			MaxNotify: 10_000,
		},
		ScriptCache: 10_000, MaxOwn: 4096, Refused: routes.RefusedByDefault(), Pipes: pipe.DefaultOptions(),
		Log: slog.New(slog.DiscardHandler), Failed: func(error) {},
	}
	o.Pipes.MaxOwn = 0 // a loop's share
	return o
}

// withDefaults fills in the defaults where o has zero values.
func (o Options) withDefaults() Options {
	d := DefaultOptions()
	o.Pipes.Log = cmp.Or(o.Pipes.Log, o.Log, d.Log)
	fillZero(reflect.ValueOf(&o).Elem(), reflect.ValueOf(d))
	o.Output = o.Output.WithDefaults()
	o.Redlock.NodeTimeout = cmp.Or(o.Redlock.NodeTimeout, d.Redlock.NodeTimeout)
	return o
}

// fillZero gives the fields of a struct that are zero those of defaults, also in the structs that it embeds.
// They are compared one by one, so that a new one cannot be forgotten. A field whose zero value has a meaning
// has the zero value as its default.
func fillZero(own, defaults reflect.Value) {
	for i := range own.NumField() {
		switch {
		case own.Type().Field(i).Anonymous:
			fillZero(own.Field(i), defaults.Field(i))
		case own.Field(i).IsZero():
			own.Field(i).Set(defaults.Field(i))
		}
	}
}
