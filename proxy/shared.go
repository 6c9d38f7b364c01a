package proxy

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"lockproxy/cluster/pipe"
	"lockproxy/commands"
	"lockproxy/internal/resp"
	"lockproxy/proxy/blocking"
	"lockproxy/proxy/client"
	"lockproxy/proxy/clients"
	"lockproxy/proxy/door"
	"lockproxy/proxy/login"
	"lockproxy/proxy/masters"
	"lockproxy/proxy/memory"
	"lockproxy/proxy/pubsub"
	"lockproxy/proxy/scatter"
	"lockproxy/proxy/stats"
	"lockproxy/proxy/table"
	"lockproxy/proxy/tracking"
	"lockproxy/proxy/watch"
)

// Shared is what the clients of all loops have together: the rooms of the proxy that they use. The Server
// makes it before there is any loop. Safe for concurrent use. The funcs at its beginning are set by the
// Server, before a client is served.
type Shared struct {
	Log     *slog.Logger
	Context context.Context          // of all tasks
	Tasks   sync.WaitGroup           // goroutines of Actions.Task
	Now     atomic.Pointer[Settings] // which may change

	ReplicaReads commands.ReplicaReads  // whose reads go to replicas
	Sheds        bool                   // commands for overloaded nodes are refused
	Independent  func(name []byte) bool // independent masters keep the lock of that name
	Left         func()                 // is called when a client has gone

	Server   commands.Server // the proxy as commands see it
	Table    table.Learner
	Limits   masters.CommandLimits
	Scripts  *commands.Scripts
	Pipes    pipe.Stats
	Counters stats.Counters
	Own      *stats.Own // what INFO shows of the proxy itself
	Memory   memory.Account
	Clients  clients.All
	Watchers watch.Watchers
	Trackers tracking.Trackers
	Blocked  blocking.Counts
	Underway pubsub.Underway
	Login    login.Record
}

// Settings may change while clients are served. They are never changed, but replaced as a whole.
type Settings struct {
	door.LiveSettings
	Password    string        // clients must AUTH with it; "": no AUTH is needed
	IdleTimeout time.Duration // a client that is silent for so long is closed; 0: never
	Limits      resp.Limits   // limits of one command
	Output      memory.Limits // limits of what waits for one client
	MaxMemory   int64         // bytes that all clients together may take; 0: any number
	MaxPipeline int           // commands of one client on their way at once
}

// host is client.Host for the parts that belong to the proxy as a whole, not to one feature.
type host interface {
	client.Host
	shared() *Shared
}

// nodeAsker is a session as seen by those who ask nodes on behalf of its commands.
type nodeAsker interface {
	host
	scatter.Host
	pipe.Receiver // takes the reply of a node as the answer to a command
	// Reply answers the current command with a reply that the proxy made.
	Reply(reply []byte)
}
