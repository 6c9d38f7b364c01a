// Package settings has all settings of the program.
//
//	Sources --> Reading (flags, environment, file) --> check --> Values --> Config (CONFIG GET, SET, SIGHUP)
//
// A Setting (setting.go) is one row of the table in this file: its name, help, what is allowed, and the field
// of the options that it sets. The options are those of the packages that they are for (Values), which also
// have the defaults.
//
//	{Name: "maxclients", Help: "how many clients may be connected",
//		live: true, at: kind.Number(&v.Proxy.MaxClients, 1, 1_000_000)}
//
// Of that row come the flag --maxclients, the variable LOCKPROXY_MAXCLIENTS, the line of a file, --help, the
// table in docs/settings.md, and CONFIG GET. With live, CONFIG SET changes the options of the running server.
package settings

import (
	"log/slog"
	"slices"
	"time"

	"lockproxy/cmd/lockproxy/kind"
	"lockproxy/commands"
	"lockproxy/internal/journal"
)

// value is the place of one setting in a Values.
type value = *kind.Input

const year = 365 * 24 * time.Hour

const (
	kb = int64(1) << 10
	mb = int64(1) << 20
	gb = int64(1) << 30
)

// settings is the table, for what of it stands in no Values.
var settings = table(new(Values))

// table is all settings, with their places in v.
func table(v *Values) (all []Setting) {
	for _, group := range []struct {
		name string
		rows []Setting
	}{
		{"clients", ofClients(v)}, {"upstream", ofUpstream(v)}, {"locks", ofLocks(v)},
		{"limits", ofLimits(v)}, {"program", ofProgram(v)},
	} {
		for _, s := range group.rows {
			s.Group = group.name
			all = append(all, s)
		}
	}
	return all
}

func ofClients(v *Values) []Setting {
	return []Setting{
		{Name: "listen", Default: "127.0.0.1:6380",
			Help: "where clients connect: TCP addresses and paths of unix sockets",
			at:   addresses(&v.Listen, true, "")},
		// Without it, a client that connects while the upstream is away is refused by the kernel.
		{Name: "listen-at-once", Default: "yes",
			Help: "whether clients can connect before the upstream is found: they are told why they have " +
				"to wait",
			at: kind.YesNo(&v.ListenEarly)},
		// CONFIG SET may change it, as in Redis, but not so that others get in who could not before (opens).
		{Name: "requirepass", Secret: true,
			Help: "the password that clients give with AUTH; empty: none is needed",
			live: true, at: password(&v.Proxy.Password)},
		{Name: "requirepass-file",
			Help: "file with that password, in place of `requirepass`: its one line; CONFIG SET " +
				"requirepass is refused then",
			at: kind.File(&v.ClientsFrom.File, "a file")},
		{Name: "auth-timeout", Default: "1m",
			Help: "how long a client that needs AUTH may take for it; 0s: for ever",
			live: true, at: kind.Time(&v.Proxy.AuthTimeout, 0, 24*time.Hour)},
		{Name: "protected-mode", Default: "yes",
			Help: "refuse to listen beyond this machine unless clients must authenticate",
			live: true, at: kind.YesNo(&v.ProtectedMode)},
		// Not live: clients that are there have logged in by the rules of before.
		{Name: "client-auth",
			Help: "whose users clients are: `proxy`: all clients have the rights of the proxy; " +
				"`upstream`: they log in as users of the upstream",
			at: kind.Choice(&v.Proxy.UsersOnly, "proxy upstream", false, true)},
		// The names of files are fixed while the proxy runs, and not what they hold: package files reads them
		// again.
		{Name: "tls-cert", Help: "certificate of the listeners; with it, clients on TCP must use TLS",
			at: kind.File(&v.TLS.Cert, "a PEM file")},
		{Name: "tls-key", Help: "private key of `tls-cert`",
			at: kind.File(&v.TLS.Key, "a PEM file")},
		{Name: "tls-ca", Help: "authority of clients' certificates; with it, clients must show one",
			at: kind.File(&v.TLS.CA, "a PEM file")},
		{Name: "cluster-mode", Help: "look like a Redis Cluster to clients",
			at: kind.YesNo(&v.Proxy.ClusterMode)},
		{Name: "cluster-announce",
			Help: "addresses of the proxies that clients in cluster mode are told of, this one first; " +
				"empty: only the address where they have connected",
			at: addresses(&v.Proxy.Announce, false, "")},
	}
}

func ofUpstream(v *Values) []Setting {
	return slices.Concat([]Setting{
		// Not compared among proxies: each may name other nodes of the same upstream.
		{Name: "upstream", Help: "any nodes of the upstream: a cluster, Sentinels or one Redis",
			at: addresses(&v.Upstream.Addrs, true, "upstream")},
		{Name: "upstream-map",
			Help: "[where nodes are reached](operations.md#nodes-that-are-reached-elsewhere) whose " +
				"addresses lead nowhere from here: `10.0.0.5:6379=127.0.0.1:7001,10.0.0.6=db6`",
			live: true, fileOnly: true, at: detours(&v.Detours)},
		{Name: "upstream-map-file",
			Help: "file with lines of that form, in place of `upstream-map`; it is reread when it changes",
			at:   kind.File(&v.DetoursFile, "a file")},
		{Name: "upstream-user", Help: "ACL user of the proxy at the upstream",
			at: user(&v.Upstream.User)},
	}, passwordOf("upstream", &v.Upstream.Password, &v.UpstreamFrom,
		" to its standard output; it runs each `password-command-interval`"), []Setting{
		{Name: "upstream-tls", Help: "use TLS to the upstream",
			at: kind.YesNo(&v.UpstreamTLS.On)},
		{Name: "upstream-tls-ca",
			Help: "authority of the upstream's certificates; empty: the authorities of the system",
			at:   kind.File(&v.UpstreamTLS.CA, "a PEM file")},
		{Name: "upstream-tls-cert", Help: "the proxy's own certificate, for an upstream that wants one",
			at: kind.File(&v.UpstreamTLS.Cert, "a PEM file")},
		{Name: "upstream-tls-key", Help: "private key of `upstream-tls-cert`",
			at: kind.File(&v.UpstreamTLS.Key, "a PEM file")},
		{Name: "upstream-tls-server-name",
			Help: "name in the certificates of the upstream; empty: the host that is dialled",
			at:   kind.Text(&v.UpstreamTLS.ServerName, "HOST", "a host name")},
		{Name: "sentinel-master", Help: "name of the master, if the Sentinels watch several",
			at: kind.Text(&v.Upstream.SentinelMaster, "NAME", "a name the sentinels know")},
		{Name: "sentinel-user", Help: "ACL user of the proxy at the Sentinels",
			at: user(&v.Upstream.SentinelUser)},
	}, passwordOf("sentinel", &v.Upstream.SentinelPassword, &v.SentinelFrom, likeUpstream), []Setting{
		{Name: "password-command-interval", Default: "10m",
			Help: "how often the programs that write passwords run",
			at:   kind.Time(&v.PasswordInterval, time.Second, 24*time.Hour)},
		{Name: "dev",
			Help: "no upstream: a small Redis in memory, to try things out; nothing survives the process",
			at:   kind.YesNo(&v.Dev)},
		{Name: "upstream-connect-timeout", Help: "how long connecting to a node, with login, may take",
			at: kind.Time(&v.Upstream.ConnectTimeout, 10*time.Millisecond, time.Minute)},
		{Name: "upstream-timeout",
			Help: "how long a node that owes replies may be silent before its connection is given up",
			at:   kind.Time(&v.Proxy.Pipes.Timeout, 100*time.Millisecond, time.Hour)},
		// 0 sends nothing again, so each fail-over is seen by clients.
		{Name: "retry-budget",
			Help: "how long a command is sent again and again while its shard has a master",
			at:   kind.Time(&v.Proxy.Pipes.Budget, 0, 10*time.Minute)},
		{Name: "max-wait",
			Help: "how long a command may wait for a node in all, [fail-over and `retry-budget`]" +
				"(pass-through.md#while-a-master-is-away) together; 0: three times `retry-budget`",
			at: kind.Time(&v.Proxy.Pipes.MaxWait, 0, time.Hour)},
		// A change that nobody announces is noticed this late, so it may not be long.
		{Name: "topology-refresh", Help: "how often the topology is asked for",
			at: kind.Time(&v.Upstream.Refresh, 50*time.Millisecond, time.Second)},
		{Name: "replica-reads", Help: "[whose reads go to replicas](pass-through.md#reading-from-replicas)",
			at: kind.Choice(&v.Proxy.ReplicaReads, "no readonly replica-preferred any same-zone",
				commands.ReadsAtMaster, commands.ReadsOnRequest, commands.ReadsPreferred,
				commands.ReadsAnywhere, commands.ReadsSameZone)},
		{Name: "availability-zone", Help: "zone in which this proxy runs, for `replica-reads same-zone`",
			at: kind.Text(&v.Upstream.Zone, "NAME", "a name, as the nodes have one")},
		{Name: "upstream-queue-limit",
			Help: "bytes queued to one node, above which no more is read from clients that send to it",
			at:   size(&v.Proxy.Pipes.QueueLimit, 64*kb, gb)},
		{Name: "shed-after",
			Help: "while a node answers later than this, new commands for it get `-BUSY` at once " +
				"([overload](operations.md#overload)); 0s: never",
			at: kind.Time(&v.Proxy.Pipes.ShedAfter, 0, time.Minute)},
		{Name: "script-cache", Help: "how many scripts are kept, for nodes that have lost them",
			at: kind.Number(&v.Proxy.ScriptCache, 1, 1_000_000)},
		{Name: "refused-commands", Help: "commands that are refused; empty: all are passed on that can be",
			at: commandList(&v.Proxy.Refused)},
	})
}

func ofLocks(v *Values) []Setting {
	return slices.Concat([]Setting{
		// same: two proxies with different prefixes would grant one lock twice.
		{Name: "lock-prefix", Help: "prefix of the keys of locks",
			same: func() string { return v.Proxy.Locks.Prefix },
			at:   prefix(&v.Proxy.Locks.Prefix)},
		// Off by default: a server that evicts a lock lets a second client have it.
		{Name: "lock-allow-eviction",
			Help: "keep locks at servers that may [evict](operations.md#memory-of-redis) them",
			at:   kind.YesNo(&v.Proxy.AllowEviction)},
		{Name: "lock-events",
			Help: "publish what happens to locks, for [LOCKCTL WATCH](locks.md#lockctl); the same in all " +
				"proxies",
			at: kind.YesNo(&v.Proxy.LockEvents)},
		// check compares it with lock-max-lease, lock-sync-timeout, lock-failover-grace and the settings of
		// redlock.
		{Name: "lock-lease", Help: "lease of a lock without PX or EX",
			at: kind.Time(&v.Proxy.Locks.Lease, time.Millisecond, year)},
		{Name: "lock-max-lease", Help: "longest lease that may be asked for",
			at: kind.Time(&v.Proxy.Locks.MaxLease, time.Millisecond, year)},
		{Name: "lock-max-wait", Help: "longest WAIT",
			at: kind.Time(&v.Proxy.Locks.MaxWait, time.Millisecond, 24*time.Hour)},
		// This and the next bound what one lock takes in Redis: every waiter and reader is a field of its
		// hash.
		{Name: "lock-max-queue", Help: "waiters of one lock; one more gets -QUEUEFULL",
			at: kind.Number(&v.Proxy.Locks.MaxQueue, 1, 1_000_000)},
		{Name: "lock-max-readers", Help: "readers of one lock; one more gets `-QUEUEFULL`",
			at: kind.Number(&v.Proxy.Locks.MaxReaders, 1, 1_000_000)},
		{Name: "lock-max-keepalive", Help: "how many holds this proxy keeps alive at a time",
			at: kind.Number(&v.Proxy.Locks.MaxKept, 1, 100_000_000)},
		{Name: "lock-sync", Help: "how many replicas must have each grant (SYNC); 0: none",
			at: kind.Number(&v.Proxy.Locks.Sync, 0, 16)},
		{Name: "lock-sync-timeout",
			Help: "how long replicas may take for SYNC; then the answer is `-NOREPLICAS`",
			at:   kind.Time(&v.Proxy.Locks.SyncTimeout, time.Millisecond, time.Minute)},
		// same: the grace is only as long as that of the proxy with the shortest one.
		{Name: "lock-failover-grace",
			Help: "how long no new locks are granted after a fail-over; 0s: not at all",
			same: func() string { return v.Proxy.Locks.FailoverGrace.String() },
			at:   kind.Time(&v.Proxy.Locks.FailoverGrace, 0, year)},
		{Name: "lock-max-notify",
			Help: "how many waits with [NOTIFY](locks.md#notify) stand at this proxy at a time",
			at:   kind.Number(&v.Proxy.MaxNotify, 1, 1_000_000)},
		{Name: "lock-stats-names", Default: "1000",
			Help: "for how many locks LOCKCTL STATS counts by name; 0: none",
			at:   kind.Number(&v.Proxy.LockNames, 0, 1_000_000)},
		// Few and short: each is a label of several histograms.
		{Name: "metrics-lock-prefixes",
			Help: "locks whose names begin with one of these have [metrics](operations.md#metrics) of " +
				"their own for how long they are waited for and held",
			at: fewWords(&v.Proxy.LockPrefixes, 50, 64)},
		{Name: "log-lock-names",
			Help: "how the log shows names of locks: hash (8 hex digits of SHA-256), no, yes",
			at: kind.Choice(&v.Proxy.Locks.Names, "hash no yes", journal.NamesHashed, journal.NamesHidden,
				journal.NamesWhole)},

		{Name: "lock-compat",
			Help: "locks whose names begin with one of these are strings at that very key, as libraries " +
				"with SET NX PX make them",
			same: func() string { return unordered(v.Proxy.Compat) },
			at:   words(&v.Proxy.Compat)},
		{Name: "lock-fleet",
			Help: "name of the proxies that share locks. Only those with the same one " +
				"[compare their settings](operations.md#proxies-that-differ): name your fleets if several " +
				"use one upstream, each with a `lock-prefix` of its own",
			at: kind.Text(&v.Proxy.Fleet, "TEXT", "any text")},
		{Name: "redlock", Help: "3, 5, 7 ... independent masters that keep the locks",
			same: func() string { return unordered(v.Redlock) },
			at:   addresses(&v.Redlock, true, "redlock")},
		{Name: "redlock-prefix",
			Help: "locks whose names begin with one of these are kept there; empty: all locks",
			same: func() string { return unordered(v.Proxy.Redlock.Prefixes) },
			at:   words(&v.Proxy.Redlock.Prefixes)},
		// A master that answers later than this has not voted, so it is a part of what a lease loses at its
		// beginning.
		{Name: "redlock-node-timeout",
			Help: "how long a request to one of these masters may take; at most a quarter of `lock-lease`",
			at:   kind.Time(&v.Proxy.Redlock.NodeTimeout, time.Millisecond, time.Minute)},
		// same: a proxy that lets a restarted master vote too soon would let it grant what another has
		// granted.
		{Name: "redlock-max-lease", Default: "1m",
			Help: "longest lease there; a master that has restarted does not vote for so long",
			same: v.quarantine,
			at:   kind.Time(&v.Proxy.Redlock.MaxLease, time.Millisecond, year)},
		{Name: "redlock-user", Help: "ACL user of the proxy at these masters",
			at: user(&v.Masters.User)},
	}, passwordOf("redlock", &v.Masters.Password, &v.RedlockFrom, likeUpstream))
}

// likeUpstream is said of the programs that write the other passwords.
const likeUpstream = ", like `upstream-password-command`"

// passwordOf are the ways to give the password that the proxy itself has somewhere. how is said of the
// program that writes it.
func passwordOf(whose string, at *string, from *PasswordFrom, how string) []Setting {
	name := whose + "-password"
	return []Setting{
		// fileOnly: a client that may CONFIG SET must not be able to lock the proxy out.
		{Name: name, Secret: true, Help: "password of that user",
			live: true, fileOnly: true, at: password(at)},
		{Name: name + "-file", Help: "file with that password, in place of `" + name + "`",
			at: kind.File(&from.File, "a file")},
		{Name: name + "-command", Secret: true, Help: "program that writes that password" + how,
			at: command(&from.Command)},
	}
}

func ofLimits(v *Values) []Setting {
	return []Setting{
		// Lower if the open files do not allow so many (limits.FitClients).
		{Name: "maxclients", Help: "how many clients may be connected",
			live: true, at: kind.Number(&v.Proxy.MaxClients, 1, 1_000_000)},
		{Name: "maxmemory-clients", Default: "25%",
			Help: "memory of all clients together; above it the client that takes most is closed; 0: any",
			live: true, at: memoryShare(&v.MaxMemory)},
		// From here on most names are those of Redis's own settings.
		{Name: "timeout", Help: "seconds after which an idle client is closed; 0: never",
			live: true, at: seconds(&v.Proxy.IdleTimeout, 1<<31-1)},
		{Name: "tcp-keepalive", Help: "seconds between probes of a client; 0: none",
			live: true, at: seconds(&v.Proxy.KeepAlive, 32767)},
		{Name: "proto-max-bulk-len", Help: "bytes of one argument",
			live: true, at: size(&v.Proxy.Limits.Bulk, mb, 1<<40)},
		{Name: "proto-max-multibulk-len", Help: "arguments of one command",
			live: true, at: kind.Number(&v.Proxy.Limits.Args, 16, 1<<31-1)},
		{Name: "proto-inline-max-size", Help: "bytes of a command that is typed as a line of text",
			live: true, at: size(&v.Proxy.Limits.Inline, kb, mb)},
		{Name: "client-query-buffer-limit",
			Help: "bytes of one whole command, and of what comes behind one that waits",
			live: true, at: size(&v.Proxy.Limits.Command, mb, 1<<40)},
		{Name: "client-output-buffer-limit",
			Help: "bytes of replies that a client may leave unread, by class as in redis.conf",
			live: true, at: outputLimits(&v.Proxy.Output)},
		{Name: "client-max-pipeline", Help: "how many commands of one client may be on their way",
			live: true, at: kind.Number(&v.Proxy.MaxPipeline, 1, 1_000_000)},
		{Name: "upstream-own-connections",
			Help: "how many connections to the upstream may belong to single clients: while one " +
				"blocks, for example",
			at: kind.Number(&v.Proxy.MaxOwn, 1, 1_000_000)},
	}
}

func ofProgram(v *Values) []Setting {
	return []Setting{
		{Name: "admin", Default: "127.0.0.1:6390",
			Help: "address of the [admin HTTP](security.md#the-admin-listener) (a page at /, /metrics, " +
				"/healthz, /readyz); off for none",
			at: address(&v.Admin.Addr)},
		// Against web pages that have their own name resolve to this machine (DNS rebinding).
		{Name: "admin-hosts",
			Help: "host names under which the admin HTTP may be asked, besides localhost and IP addresses",
			at:   hosts(&v.Admin.Hosts)},
		{Name: "admin-protected-mode", Default: "yes",
			Help: "refuse to have the admin HTTP listen beyond this machine unless `admin-password` or " +
				"`admin-tls-ca` is set",
			at: kind.YesNo(&v.Admin.Protected)},
		{Name: "admin-password", Secret: true,
			Help: "password for the admin HTTP, under any user name; all but /healthz and the status of " +
				"/readyz needs it; empty: none does",
			live: true, fileOnly: true, at: password(&v.Admin.Password)},
		{Name: "admin-password-file", Help: "file with that password, in place of `admin-password`",
			at: kind.File(&v.Admin.From.File, "a file")},
		{Name: "admin-actions",
			Help: "whether locks can be broken at the [page](operations.md#the-page) of the admin HTTP; " +
				"needs `admin-password` or `admin-tls-ca`",
			at: kind.YesNo(&v.Admin.Actions)},
		{Name: "admin-pprof", Help: "profiles at /debug/pprof of the admin HTTP",
			at: kind.YesNo(&v.Admin.Pprof)},
		{Name: "admin-tls-cert", Help: "certificate of the admin HTTP; with it, it speaks TLS alone",
			at: kind.File(&v.Admin.TLS.Cert, "a PEM file")},
		{Name: "admin-tls-key", Help: "private key of `admin-tls-cert`",
			at: kind.File(&v.Admin.TLS.Key, "a PEM file")},
		{Name: "admin-tls-ca",
			Help: "authority of certificates of those who ask the admin HTTP; what needs `admin-password` " +
				"needs one, too",
			at: kind.File(&v.Admin.TLS.CA, "a PEM file")},
		{Name: "drain-timeout", Default: "10s", Help: "how long commands may take to finish after SIGTERM",
			live: true, at: kind.Time(&v.DrainTimeout, 0, time.Hour)},
		{Name: "drain-delay",
			Help: "how long after SIGTERM it [still serves](operations.md#signals-and-draining), but is " +
				"not ready, before it drains",
			live: true, at: kind.Time(&v.DrainDelay, 0, time.Hour)},
		{Name: "loops", Help: "event loops; 0: from the number of cores",
			at: kind.Number(&v.Proxy.Loops, 0, 256)},
		{Name: "log-level", Help: "the least level that is logged",
			live: true, at: kind.Choice(&v.LogLevel, "debug info warn error", slog.LevelDebug, slog.LevelInfo,
				slog.LevelWarn, slog.LevelError)},
		{Name: "log-format", Default: "text", Help: "format of the lines on standard error",
			at: kind.OneOf(&v.LogFormat, "text", "json")},
		{Name: "audit-log",
			Help: "file of the [audit log](operations.md#the-audit-log), or `stderr`; empty: there is none",
			at:   kind.File(&v.AuditLog, "a file, stderr")},
		// Only flags and variables can name it: readSources looks for it there before the file is read.
		{Name: "config", Help: "file with a setting on each line, as in redis.conf",
			at: kind.File(&v.Proxy.ConfigFile, "a file")},
	}
}
