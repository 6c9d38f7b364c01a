package proxy

import (
	"context"
	"crypto/tls"
	"log/slog"
	"time"

	"lockproxy/cluster"
	"lockproxy/commands"
	"lockproxy/internal/resp"
	"lockproxy/internal/subscription"
	"lockproxy/redlock"
)

// Upstream is what a Server needs of the upstream's control plane;
// *cluster.Upstream is one. Safe for concurrent use.
type Upstream interface {
	cluster.Control
	PubSub
	// OnChange has f called with each new topology. f does not block.
	OnChange(f func(*cluster.Topology))
	// Command returns the reply of COMMAND.
	Command(ctx context.Context) ([]byte, error)
	// Limits are those of the masters for one client, as far as they tell.
	Limits(ctx context.Context) cluster.Limits
	// Subscribe listens on a channel of slot until cancel is called.
	Subscribe(ctx context.Context, slot int, channel string, notify func(subscription.Event)) (cancel func(), err error)
	// Ready says why commands can probably not be served now, or nil.
	Ready() error
	// WatchReplicas has the replicas looked after, so that Topology.Readers tells which may be read from.
	WatchReplicas()
	// Sharded says that channels are those of SSUBSCRIBE and SPUBLISH.
	Sharded() bool
}

// Options configure a Server. Zero values mean the defaults; Upstream is
// required.
type Options struct {
	Upstream     Upstream
	Loops        int                 // event loops; 0: half the processors, at least 1
	Portable     bool                // loops that serve any net.Conn, as tests in fake time need
	Password     string              // clients must AUTH with it; "": they need not
	UsersOnly    bool                // clients must AUTH as users of the upstream; Password is ""
	MaxClients   int                 // 10,000
	IdleTimeout  time.Duration       // a client silent for so long is closed; 0: never
	AuthTimeout  time.Duration       // a client that must authenticate and has not after so long is closed; 0: never
	KeepAlive    time.Duration       // TCP keep-alive; 300 s
	Limits       resp.Limits         // of one command
	Output       OutputLimits        // of what waits for one client
	MaxMemory    int64               // bytes that all clients together may take; 0: any number
	MaxPipeline  int                 // commands of one client on their way at once; 1,024
	ScriptCache  int                 // script sources remembered to heal nodes that lost them; 10,000
	MaxOwn       int                 // upstream connections that are not shared, of all loops together; 4,096
	Pipes        cluster.PipeOptions // MaxOwn 0: a loop's share of the one above
	Locks        redlock.Options
	Redlock      Redlock               // what locks RedLock has; the zero value: none
	ClusterMode  bool                  // looks like a Redis Cluster to its clients
	Announce     []string              // host:port of the proxies that then share the slots, itself first; none: where clients reach it
	ReplicaReads commands.ReplicaReads // whose reads go to replicas
	LockNames    int                   // locks that LOCKCTL STATS counts one by one; 0: none
	Refused      []string              // commands that are refused by name, "container|sub" for a subcommand
	Config       commands.Config       // CONFIG GET and SET
	ConfigFile   string                // of the settings, for INFO
	TLS          func() *tls.Config    // of the listening side, asked for each new client; nil: plain
	Version      string                // of lockproxy, for INFO
	Log          *slog.Logger
}

// Redlock are the locks that several independent masters keep.
type Redlock struct {
	Masters     []*cluster.Master // an odd number, of whoever made them; none: there is no RedLock
	Prefixes    []string          // what the names of its locks begin with; none: all are its
	NodeTimeout time.Duration     // for one request to one master; 50 ms
	MaxLease    time.Duration     // the longest that may be asked for; 0: as of other locks
}

func (o Options) withDefaults() Options {
	if o.MaxClients <= 0 {
		o.MaxClients = 10_000
	}
	if o.KeepAlive == 0 {
		o.KeepAlive = 300 * time.Second
	}
	if o.Refused == nil {
		o.Refused = commands.RefusedByDefault()
	}
	if o.MaxPipeline <= 0 {
		o.MaxPipeline = 1024
	}
	if o.MaxOwn <= 0 {
		o.MaxOwn = 4096
	}
	if o.ScriptCache <= 0 {
		o.ScriptCache = 10_000
	}
	if o.Redlock.NodeTimeout <= 0 {
		o.Redlock.NodeTimeout = 50 * time.Millisecond
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Pipes.Log == nil {
		o.Pipes.Log = o.Log
	}
	return o
}
