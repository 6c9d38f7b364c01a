// Package settings has all settings of the program.
//
//	Sources --> Reading (flags, environment, file) --> check --> Values --> Config (CONFIG GET, SET, SIGHUP)
//
// A Setting is one row of the table in this file: its name, help, what is allowed, and the field of the
// options that it sets. The options are those of the packages that they are for (Values), which also have
// the defaults.
//
//	{Name: "maxclients", ..., live: true,
//		in: func(v *Values) value { return number{&v.Proxy.MaxClients, 1, 1_000_000} }}
//
// Of that row come the flag --maxclients, the variable LOCKPROXY_MAXCLIENTS, the line of a file, --help, the
// table in docs/settings.md, and CONFIG GET. With live, CONFIG SET changes the options of the running server.
package settings

import (
	"log/slog"
	"time"

	"lockproxy/cluster/discovery"
	"lockproxy/commands"
	"lockproxy/internal/journal"
	"lockproxy/proxy"
)

// Setting is one row of the table that defines every setting: its flag, its
// environment variable, its line in a config file, its CONFIG parameter, its
// place in --help and in docs/settings.md.
type Setting struct {
	Name    string // lock-lease: --lock-lease, LOCKPROXY_LOCK_LEASE
	Group   string // heading in --help
	Default string // as a user would write it; "": what DefaultOptions of its package has, or nothing
	Help    string // of its line in --help; "": it shares the line of the setting before it
	Page    string // what docs/settings.md says of it; "": Help
	Secret  bool   // never shown in errors and logs

	in func(*Values) value // its place in v, and what is allowed there
	// what of it all proxies must have the same that share locks; nil: nothing
	same func(*Values) string
	// SIGHUP and CONFIG SET may change it, because it is read each time it is used, or Server.Change handles
	// it
	live bool
	// ... but not CONFIG SET: it is for those who run the proxy, not for clients
	fileOnly bool
}

// settable says that CONFIG SET may change the setting.
func (s *Setting) settable() bool { return s.live && !s.fileOnly }

// changes says how the setting of a running proxy is changed.
func (s *Setting) changes() string {
	switch {
	case s.same != nil:
		return "restart, all alike"
	case s.settable():
		return "live"
	case s.live:
		return "SIGHUP"
	}
	return "restart"
}

const year = 365 * 24 * time.Hour

const (
	kb = int64(1) << 10
	mb = int64(1) << 20
	gb = int64(1) << 30
)

// settings is the table.
var settings = []Setting{
	{Name: "listen", Group: "clients", Default: "127.0.0.1:6380",
		Help: "where clients connect; commas between several",
		Page: "where clients connect: TCP addresses and paths of unix sockets",
		in:   func(v *Values) value { return addresses(&v.Listen, true, "") }},
	{Name: "listen-at-once", Group: "clients", Default: "yes",
		Page: "whether clients can connect before the upstream is found: they are told why they have to wait",
		in:   func(v *Values) value { return yesNo{&v.ListenEarly} }},
	{Name: "requirepass", Group: "clients", Secret: true,
		Help: "password for AUTH, and time for it",
		Page: "the password that clients give with AUTH; empty: none is needed",
		live: true,
		in:   func(v *Values) value { return text{&v.Proxy.Password, "any text, empty for none"} }},
	{Name: "requirepass-file", Group: "clients",
		Page: "file with that password, in place of `requirepass`: its one line; CONFIG SET requirepass is " +
			"refused then",
		in: func(v *Values) value { return text{&v.ClientsFrom.File, "a file"} }},
	{Name: "auth-timeout", Group: "clients", Default: "1m",
		Page: "how long a client that needs AUTH may take for it; 0s: for ever",
		live: true,
		in:   func(v *Values) value { return duration{&v.Proxy.AuthTimeout, 0, 24 * time.Hour} }},
	{Name: "protected-mode", Group: "clients", Default: "yes",
		Help: "never open without AUTH, and as whose user",
		Page: "refuse to listen beyond this machine unless clients must authenticate",
		live: true,
		in:   func(v *Values) value { return yesNo{&v.ProtectedMode} }},
	{Name: "client-auth", Group: "clients",
		Page: "whose users clients are: `proxy`: all clients have the rights of the proxy; " +
			"`upstream`: they log in as users of the upstream",
		in: func(v *Values) value {
			return choice[bool]{&v.Proxy.UsersOnly, []word[bool]{{"proxy", false}, {"upstream", true}}}
		}},
	{Name: "tls-cert", Group: "clients",
		Help: "PEM files: clients must use TLS",
		Page: "certificate of the listeners; with it, clients on TCP must use TLS",
		in:   func(v *Values) value { return text{&v.TLSCert, "a PEM file"} }},
	{Name: "tls-key", Group: "clients",
		Page: "private key of `tls-cert`",
		in:   func(v *Values) value { return text{&v.TLSKey, "a PEM file"} }},
	{Name: "tls-ca", Group: "clients",
		Page: "authority of clients' certificates; with it, clients must show one",
		in:   func(v *Values) value { return text{&v.TLSCA, "a PEM file"} }},
	{Name: "cluster-mode", Group: "clients",
		Help: "look like a cluster, and of which proxies",
		Page: "look like a Redis Cluster to clients",
		in:   func(v *Values) value { return yesNo{&v.Proxy.ClusterMode} }},
	{Name: "cluster-announce", Group: "clients",
		Page: "addresses of the proxies that clients in cluster mode are told of, this one first; " +
			"empty: only the address where they have connected",
		in: func(v *Values) value { return addresses(&v.Proxy.Announce, false, "") }},

	{Name: "upstream", Group: "upstream",
		Help: "any nodes; announced=reached addresses",
		Page: "any nodes of the upstream: a cluster, Sentinels or one Redis",
		in:   func(v *Values) value { return addresses(&v.Upstream.Addrs, true, "upstream") }},
	{Name: "upstream-map", Group: "upstream",
		Page: "[where nodes are reached](operations.md#nodes-that-are-reached-elsewhere) whose addresses " +
			"lead nowhere from here: `10.0.0.5:6379=127.0.0.1:7001,10.0.0.6=db6.example.com`",
		live: true, fileOnly: true,
		in: func(v *Values) value { return detours{&v.Detours} }},
	{Name: "upstream-map-file", Group: "upstream",
		Page: "file with lines of that form, in place of `upstream-map`; it is reread when it changes",
		in:   func(v *Values) value { return text{&v.DetoursFile, "a file"} }},
	{Name: "upstream-user", Group: "upstream",
		Help: "ACL user there, and its password",
		Page: "ACL user of the proxy at the upstream",
		in:   func(v *Values) value { return text{&v.Upstream.User, "an ACL user, empty for default"} }},
	{Name: "upstream-password", Group: "upstream", Secret: true,
		Page: "password of that user",
		live: true, fileOnly: true,
		in: func(v *Values) value { return text{&v.Upstream.Password, "any text, empty for none"} }},
	{Name: "upstream-password-file", Group: "upstream",
		Help: "file with the password; or a program",
		Page: "file with that password, in place of `upstream-password`",
		in:   func(v *Values) value { return text{&v.UpstreamFrom.File, "a file"} }},
	{Name: "upstream-password-command", Group: "upstream", Secret: true,
		Page: "program that writes that password to its standard output; it runs each " +
			"`password-command-interval`",
		in: func(v *Values) value {
			return text{&v.UpstreamFrom.Command, "a program and its arguments"}
		}},
	{Name: "upstream-tls", Group: "upstream",
		Help: "TLS to the upstream, and who vouches for it",
		Page: "use TLS to the upstream",
		in:   func(v *Values) value { return yesNo{&v.UpstreamTLS} }},
	{Name: "upstream-tls-ca", Group: "upstream",
		Page: "authority of the upstream's certificates; empty: the authorities of the system",
		in:   func(v *Values) value { return text{&v.UpstreamTLSCA, "a PEM file"} }},
	{Name: "upstream-tls-cert", Group: "upstream",
		Help: "PEM files: our certificate there",
		Page: "the proxy's own certificate, for an upstream that wants one",
		in:   func(v *Values) value { return text{&v.UpstreamTLSCert, "a PEM file"} }},
	{Name: "upstream-tls-key", Group: "upstream",
		Page: "private key of `upstream-tls-cert`",
		in:   func(v *Values) value { return text{&v.UpstreamTLSKey, "a PEM file"} }},
	{Name: "upstream-tls-server-name", Group: "upstream",
		Help: "name it must prove; empty: the host dialled",
		Page: "name in the certificates of the upstream; empty: the host that is dialled",
		in:   func(v *Values) value { return text{&v.UpstreamTLSServerName, "a host name"} }},
	{Name: "sentinel-master", Group: "upstream",
		Help: "which master, if several; ACL user",
		Page: "name of the master, if the Sentinels watch several",
		in:   func(v *Values) value { return text{&v.Upstream.SentinelMaster, "a name the sentinels know"} }},
	{Name: "sentinel-user", Group: "upstream",
		Page: "ACL user of the proxy at the Sentinels",
		in: func(v *Values) value {
			return text{&v.Upstream.SentinelUser,
				"an ACL user, empty for default"}
		}},
	{Name: "sentinel-password", Group: "upstream", Secret: true,
		Page: "password of that user",
		live: true, fileOnly: true,
		in: func(v *Values) value {
			return text{&v.Upstream.SentinelPassword,
				"any text, empty for none"}
		}},
	{Name: "sentinel-password-file", Group: "upstream",
		Help: "file with the password; or a program",
		Page: "file with that password, in place of `sentinel-password`",
		in:   func(v *Values) value { return text{&v.SentinelFrom.File, "a file"} }},
	{Name: "sentinel-password-command", Group: "upstream", Secret: true,
		Page: "program that writes that password, like `upstream-password-command`",
		in: func(v *Values) value {
			return text{&v.SentinelFrom.Command, "a program and its arguments"}
		}},
	{Name: "password-command-interval", Group: "upstream", Default: "10m",
		Help: "how often these programs run",
		Page: "how often the programs that write passwords run",
		in:   func(v *Values) value { return duration{&v.PasswordInterval, time.Second, 24 * time.Hour} }},
	{Name: "dev", Group: "upstream",
		Help: "no upstream: in memory, nothing survives",
		Page: "no upstream: a small Redis in memory, to try things out; nothing survives the process",
		in:   func(v *Values) value { return yesNo{&v.Dev} }},
	{Name: "upstream-connect-timeout", Group: "upstream",
		Help: "to connect to a node; its silence",
		Page: "how long connecting to a node, with login, may take",
		in: func(v *Values) value {
			return duration{&v.Upstream.ConnectTimeout, 10 * time.Millisecond, time.Minute}
		}},
	{Name: "upstream-timeout", Group: "upstream",
		Page: "how long a node that owes replies may be silent before its connection is given up",
		in: func(v *Values) value {
			return duration{&v.Proxy.Pipes.Timeout, 100 * time.Millisecond, time.Hour}
		}},
	{Name: "retry-budget", Group: "upstream",
		Help: "how long a command rides out a fail-over",
		Page: "how long a command is sent again and again while its shard has a master",
		in:   func(v *Values) value { return duration{&v.Proxy.Pipes.Budget, 0, 10 * time.Minute} }},
	{Name: "max-wait", Group: "upstream",
		Page: "how long a command may wait for a node in all, [fail-over and `retry-budget`]" +
			"(pass-through.md#while-a-master-is-away) together; 0: three times `retry-budget`",
		in: func(v *Values) value { return duration{&v.Proxy.Pipes.MaxWait, 0, time.Hour} }},
	{Name: "topology-refresh", Group: "upstream",
		Help: "how often the topology is asked for, at least",
		Page: "how often the topology is asked for",
		in: func(v *Values) value {
			return duration{&v.Upstream.Refresh, 50 * time.Millisecond, time.Second}
		}},
	{Name: "replica-reads", Group: "upstream",
		Help: "whose reads go there; the zone of this proxy",
		Page: "[whose reads go to replicas](pass-through.md#reading-from-replicas)",
		in: func(v *Values) value {
			return choice[commands.ReplicaReads]{&v.Proxy.ReplicaReads, []word[commands.ReplicaReads]{
				{"no", commands.ReadsAtMaster}, {"readonly", commands.ReadsOnRequest},
				{"replica-preferred", commands.ReadsPreferred}, {"any", commands.ReadsAnywhere},
				{"same-zone", commands.ReadsSameZone},
			}}
		}},
	{Name: "availability-zone", Group: "upstream",
		Page: "zone in which this proxy runs, for `replica-reads same-zone`",
		in:   func(v *Values) value { return text{&v.Upstream.Zone, "a name, as the nodes have one"} }},
	{Name: "upstream-queue-limit", Group: "upstream",
		Help: "queued to a node; answers later: -BUSY",
		Page: "bytes queued to one node, above which no more is read from clients that send to it",
		in:   func(v *Values) value { return size{&v.Proxy.Pipes.QueueLimit, 64 * kb, gb} }},
	{Name: "shed-after", Group: "upstream",
		Page: "while a node answers later than this, new commands for it get `-BUSY` at once " +
			"([overload](operations.md#overload)); 0s: never",
		in: func(v *Values) value { return duration{&v.Proxy.Pipes.ShedAfter, 0, time.Minute} }},
	{Name: "script-cache", Group: "upstream",
		Help: "scripts kept to heal NOSCRIPT; what is refused",
		Page: "how many scripts are kept, for nodes that have lost them",
		in:   func(v *Values) value { return number{&v.Proxy.ScriptCache, 1, 1_000_000} }},
	{Name: "refused-commands", Group: "upstream",
		Page: "commands that are refused; empty: all are passed on that can be",
		in:   func(v *Values) value { return commandList(&v.Proxy.Refused) }},

	{Name: "lock-prefix", Group: "locks",
		Help: "of keys; may they be lost",
		Page: "prefix of the keys of locks",
		same: func(v *Values) string { return v.Proxy.Locks.Prefix },
		in:   func(v *Values) value { return prefix{&v.Proxy.Locks.Prefix} }},
	{Name: "lock-allow-eviction", Group: "locks",
		Page: "keep locks at servers that may [evict](operations.md#memory-of-redis) them",
		in:   func(v *Values) value { return yesNo{&v.Proxy.AllowEviction} }},
	{Name: "lock-events", Group: "locks",
		Page: "publish what happens to locks, for [LOCKCTL WATCH](locks.md#lockctl); the same in all proxies",
		in:   func(v *Values) value { return yesNo{&v.Proxy.LockEvents} }},
	{Name: "lock-lease", Group: "locks",
		Help: "lease without PX or EX, and the longest",
		Page: "lease of a lock without PX or EX",
		in:   func(v *Values) value { return duration{&v.Proxy.Locks.Lease, time.Millisecond, year} }},
	{Name: "lock-max-lease", Group: "locks",
		Page: "longest lease that may be asked for",
		in:   func(v *Values) value { return duration{&v.Proxy.Locks.MaxLease, time.Millisecond, year} }},
	{Name: "lock-max-wait", Group: "locks",
		Help: "longest WAIT, and waiters of one lock",
		Page: "longest WAIT",
		in: func(v *Values) value {
			return duration{&v.Proxy.Locks.MaxWait, time.Millisecond,
				24 * time.Hour}
		}},
	{Name: "lock-max-queue", Group: "locks",
		Page: "waiters of one lock; one more gets -QUEUEFULL",
		in:   func(v *Values) value { return number{&v.Proxy.Locks.MaxQueue, 1, 1_000_000} }},
	{Name: "lock-max-readers", Group: "locks",
		Help: "readers of one lock; holds kept alive",
		Page: "readers of one lock; one more gets `-QUEUEFULL`",
		in:   func(v *Values) value { return number{&v.Proxy.Locks.MaxReaders, 1, 1_000_000} }},
	{Name: "lock-max-keepalive", Group: "locks",
		Page: "how many holds this proxy keeps alive at a time",
		in:   func(v *Values) value { return number{&v.Proxy.Locks.MaxKept, 1, 100_000_000} }},
	{Name: "lock-sync", Group: "locks",
		Help: "replicas that must have a grant, and how soon",
		Page: "how many replicas must have each grant (SYNC); 0: none",
		in:   func(v *Values) value { return number{&v.Proxy.Locks.Sync, 0, 16} }},
	{Name: "lock-sync-timeout", Group: "locks",
		Page: "how long replicas may take for SYNC; then the answer is `-NOREPLICAS`",
		in: func(v *Values) value {
			return duration{&v.Proxy.Locks.SyncTimeout, time.Millisecond,
				time.Minute}
		}},
	{Name: "lock-failover-grace", Group: "locks",
		Help: "no grants after a fail-over; NOTIFY waits",
		Page: "how long no new locks are granted after a fail-over; 0s: not at all",
		same: func(v *Values) string { return v.Proxy.Locks.FailoverGrace.String() },
		in:   func(v *Values) value { return duration{&v.Proxy.Locks.FailoverGrace, 0, year} }},
	{Name: "lock-max-notify", Group: "locks",
		Page: "how many waits with [NOTIFY](locks.md#notify) stand at this proxy at a time",
		in:   func(v *Values) value { return number{&v.Proxy.MaxNotify, 1, 1_000_000} }},
	{Name: "lock-stats-names", Group: "locks", Default: "1000",
		Help: "told apart; 0: none",
		Page: "for how many locks LOCKCTL STATS counts by name; 0: none",
		in:   func(v *Values) value { return number{&v.Proxy.LockNames, 0, 1_000_000} }},
	{Name: "metrics-lock-prefixes", Group: "locks",
		Page: "locks whose names begin with one of these have [metrics](operations.md#metrics) of their " +
			"own for how long they are waited for and held",
		in: func(v *Values) value { return fewWords(&v.Proxy.LockPrefixes, 50, 64) }},
	{Name: "log-lock-names", Group: "locks",
		Page: "how the log shows names of locks: hash (8 hex digits of SHA-256), no, yes",
		in: func(v *Values) value {
			return choice[journal.NameStyle]{&v.Proxy.Locks.Names, []word[journal.NameStyle]{
				{"hash", journal.NamesHashed}, {"no", journal.NamesHidden}, {"yes", journal.NamesWhole},
			}}
		}},

	{Name: "lock-compat", Group: "locks",
		Help: "as libraries make locks; a fleet's name",
		Page: "locks whose names begin with one of these are strings at that very key, as libraries with " +
			"SET NX PX make them",
		same: func(v *Values) string { return unordered(v.Proxy.Compat) },
		in:   func(v *Values) value { return words(&v.Proxy.Compat) }},
	{Name: "lock-fleet", Group: "locks",
		Page: "name of the proxies that share locks. Only those with the same one " +
			"[compare their settings](operations.md#proxies-that-differ): name your fleets if several use " +
			"one upstream, each with a `lock-prefix` of its own",
		in: func(v *Values) value { return text{&v.Proxy.Fleet, "any text"} }},
	{Name: "redlock", Group: "locks",
		Help: "3, 5, 7 ... independent masters that keep them",
		Page: "3, 5, 7 ... independent masters that keep the locks",
		same: func(v *Values) string { return unordered(v.Redlock) },
		in:   func(v *Values) value { return addresses(&v.Redlock, true, "redlock") }},
	{Name: "redlock-prefix", Group: "locks",
		Page: "locks whose names begin with one of these are kept there; empty: all locks",
		same: func(v *Values) string { return unordered(v.Proxy.Redlock.Prefixes) },
		in:   func(v *Values) value { return words(&v.Proxy.Redlock.Prefixes) }},
	{Name: "redlock-node-timeout", Group: "locks",
		Help: "for a request; the longest lease there",
		Page: "how long a request to one of these masters may take; at most a quarter of `lock-lease`",
		in: func(v *Values) value {
			return duration{&v.Proxy.Redlock.NodeTimeout, time.Millisecond, time.Minute}
		}},
	{Name: "redlock-max-lease", Group: "locks", Default: "1m",
		Page: "longest lease there; a master that has restarted does not vote for so long",
		same: (*Values).quarantine,
		in:   func(v *Values) value { return duration{&v.Proxy.Redlock.MaxLease, time.Millisecond, year} }},
	{Name: "redlock-user", Group: "locks",
		Help: "ACL user there, and its password",
		Page: "ACL user of the proxy at these masters",
		in:   func(v *Values) value { return text{&v.Masters.User, "an ACL user, empty for default"} }},
	{Name: "redlock-password", Group: "locks", Secret: true,
		Page: "password of that user",
		live: true, fileOnly: true,
		in: func(v *Values) value { return text{&v.Masters.Password, "any text, empty for none"} }},
	{Name: "redlock-password-file", Group: "locks",
		Help: "file with the password; or a program",
		Page: "file with that password, in place of `redlock-password`",
		in:   func(v *Values) value { return text{&v.RedlockFrom.File, "a file"} }},
	{Name: "redlock-password-command", Group: "locks", Secret: true,
		Page: "program that writes that password, like `upstream-password-command`",
		in: func(v *Values) value {
			return text{&v.RedlockFrom.Command, "a program and its arguments"}
		}},

	{Name: "maxclients", Group: "limits",
		Help: "clients at a time, and the memory of all",
		Page: "how many clients may be connected",
		live: true,
		in:   func(v *Values) value { return number{&v.Proxy.MaxClients, 1, 1_000_000} }},
	{Name: "maxmemory-clients", Group: "limits", Default: "25%",
		Page: "memory of all clients together; above it the client that takes most is closed; 0: any",
		live: true,
		in:   func(v *Values) value { return memoryShare{&v.MaxMemory} }},
	{Name: "timeout", Group: "limits",
		Help: "seconds a client may idle; 0: for ever",
		Page: "seconds after which an idle client is closed; 0: never",
		live: true,
		in:   func(v *Values) value { return seconds{&v.Proxy.IdleTimeout, 1<<31 - 1} }},
	{Name: "tcp-keepalive", Group: "limits",
		Page: "seconds between probes of a client; 0: none",
		live: true,
		in:   func(v *Values) value { return seconds{&v.Proxy.KeepAlive, 32767} }},
	{Name: "proto-max-bulk-len", Group: "limits",
		Help: "one argument; how many",
		Page: "bytes of one argument",
		live: true,
		in:   func(v *Values) value { return size{&v.Proxy.Limits.Bulk, mb, 1 << 40} }},
	{Name: "proto-max-multibulk-len", Group: "limits",
		Page: "arguments of one command",
		live: true,
		in:   func(v *Values) value { return number{&v.Proxy.Limits.Args, 16, 1<<31 - 1} }},
	{Name: "proto-inline-max-size", Group: "limits",
		Help: "a typed line; any command",
		Page: "bytes of a command that is typed as a line of text",
		live: true,
		in:   func(v *Values) value { return size{&v.Proxy.Limits.Inline, kb, mb} }},
	{Name: "client-query-buffer-limit", Group: "limits",
		Page: "bytes of one whole command, and of what comes behind one that waits",
		live: true,
		in:   func(v *Values) value { return size{&v.Proxy.Limits.Command, mb, 1 << 40} }},
	{Name: "client-output-buffer-limit", Group: "limits",
		Help: "left unread; subscribers 32mb, 8mb for 60 s",
		Page: "bytes of replies that a client may leave unread, by class as in redis.conf",
		live: true,
		in:   func(v *Values) value { return outputLimits{&v.Proxy.Output} }},
	{Name: "client-max-pipeline", Group: "limits",
		Help: "commands of a client at once",
		Page: "how many commands of one client may be on their way",
		live: true,
		in:   func(v *Values) value { return number{&v.Proxy.MaxPipeline, 1, 1_000_000} }},
	{Name: "upstream-own-connections", Group: "limits",
		Page: "how many connections to the upstream may belong to single clients: while one " +
			"blocks, for example",
		in: func(v *Values) value { return number{&v.Proxy.MaxOwn, 1, 1_000_000} }},

	{Name: "admin", Group: "program", Default: "127.0.0.1:6390",
		Help: "HTTP: a page; or off",
		Page: "address of the [admin HTTP](security.md#the-admin-listener) (a page at /, /metrics, " +
			"/healthz, /readyz); off for none",
		in: func(v *Values) value { return address{&v.Admin} }},
	{Name: "admin-hosts", Group: "program",
		Page: "host names under which the admin HTTP may be asked, besides localhost and IP addresses",
		in:   func(v *Values) value { return hosts(&v.AdminHosts) }},
	{Name: "admin-protected-mode", Group: "program", Default: "yes",
		Page: "refuse to have the admin HTTP listen beyond this machine unless `admin-password` or " +
			"`admin-tls-ca` is set",
		in: func(v *Values) value { return yesNo{&v.AdminProtected} }},
	{Name: "admin-password", Group: "program", Secret: true,
		Help: "who may do what",
		Page: "password for the admin HTTP, under any user name; all but /healthz and the status of " +
			"/readyz needs it; empty: none does",
		live: true, fileOnly: true,
		in: func(v *Values) value { return text{&v.AdminPassword, "any text, empty for none"} }},
	{Name: "admin-password-file", Group: "program",
		Page: "file with that password, in place of `admin-password`",
		in:   func(v *Values) value { return text{&v.AdminFrom.File, "a file"} }},
	{Name: "admin-actions", Group: "program",
		Page: "whether locks can be broken at the [page](operations.md#the-page) of the admin HTTP; needs " +
			"`admin-password` or `admin-tls-ca`",
		in: func(v *Values) value { return yesNo{&v.AdminActions} }},
	{Name: "admin-pprof", Group: "program",
		Page: "profiles at /debug/pprof of the admin HTTP",
		in:   func(v *Values) value { return yesNo{&v.AdminPprof} }},
	{Name: "admin-tls-cert", Group: "program",
		Help: "PEM files: TLS there",
		Page: "certificate of the admin HTTP; with it, it speaks TLS alone",
		in:   func(v *Values) value { return text{&v.AdminTLSCert, "a PEM file"} }},
	{Name: "admin-tls-key", Group: "program",
		Page: "private key of `admin-tls-cert`",
		in:   func(v *Values) value { return text{&v.AdminTLSKey, "a PEM file"} }},
	{Name: "admin-tls-ca", Group: "program",
		Page: "authority of certificates of those who ask the admin HTTP; what needs `admin-password` " +
			"needs one, too",
		in: func(v *Values) value { return text{&v.AdminTLSCA, "a PEM file"} }},
	{Name: "drain-timeout", Group: "program", Default: "10s",
		Help: "for commands to finish",
		Page: "how long commands may take to finish after SIGTERM",
		live: true,
		in:   func(v *Values) value { return duration{&v.DrainTimeout, 0, time.Hour} }},
	{Name: "drain-delay", Group: "program",
		Page: "how long after SIGTERM it [still serves](operations.md#signals-and-draining), but is not " +
			"ready, before it drains",
		live: true,
		in:   func(v *Values) value { return duration{&v.DrainDelay, 0, time.Hour} }},
	{Name: "takeover", Group: "program",
		Page: "path of a unix socket through which a new process " +
			"[takes the ports over](operations.md#upgrades), on Linux; empty: none does",
		in: func(v *Values) value { return text{&v.Takeover, "a path"} }},
	{Name: "loops", Group: "program",
		Page: "event loops; 0: from the number of cores",
		in:   func(v *Values) value { return number{&v.Proxy.Loops, 0, 256} }},
	{Name: "log-level", Group: "program",
		Help: "debug, info, warn, error",
		Page: "the least level that is logged",
		live: true,
		in: func(v *Values) value {
			return choice[slog.Level]{&v.LogLevel, []word[slog.Level]{
				{"debug", slog.LevelDebug}, {"info", slog.LevelInfo}, {"warn", slog.LevelWarn},
				{"error", slog.LevelError},
			}}
		}},
	{Name: "log-format", Group: "program", Default: "text",
		Page: "format of the lines on standard error",
		in: func(v *Values) value {
			return choice[string]{&v.LogFormat, []word[string]{{"text", "text"}, {"json", "json"}}}
		}},
	{Name: "audit-log", Group: "program",
		Page: "file of the [audit log](operations.md#the-audit-log), or `stderr`; empty: there is none",
		in:   func(v *Values) value { return text{&v.AuditLog, "a file, stderr"} }},
	{Name: "config", Group: "program",
		Help: "file with lines as in redis.conf",
		Page: "file with a setting on each line, as in redis.conf",
		in:   func(v *Values) value { return text{&v.Proxy.ConfigFile, "a file"} }},
}

// Find returns the setting called name, nil if there is none.
func Find(name string) *Setting {
	for i := range settings {
		if settings[i].Name == name {
			return &settings[i]
		}
	}
	return nil
}

// Defaults are the values when nothing is set.
func Defaults() *Values {
	v := &Values{Upstream: discovery.DefaultOptions(), Proxy: proxy.DefaultOptions()}
	for _, s := range settings {
		if s.Default == "" {
			continue
		}
		if err := s.in(v).Set(s.Default); err != nil {
			panic("default of " + s.Name + " " + err.Error())
		}
	}
	return v
}

// standard is the value that v has for the setting, as a user would write it.
func (s *Setting) standard(v *Values) string {
	in := s.in(v)
	if short, ok := in.(interface{ Short() string }); ok {
		return short.Short()
	}
	return in.String()
}

// allowed describes the values that the setting accepts.
func (s *Setting) allowed() string { return s.in(new(Values)).Allowed() }

// boolean says that the flag needs no value.
func (s *Setting) boolean() bool {
	_, ok := s.in(new(Values)).(yesNo)
	return ok
}
