package main

import (
	"strings"
	"time"

	"lockproxy/commands"
)

// Setting is one row of the table that defines every setting: its flag, its
// environment variable, its line in a config file, its CONFIG parameter, its
// place in --help and in docs/settings.md.
type Setting struct {
	Name    string // lock-lease: --lock-lease, LOCKPROXY_LOCK_LEASE
	Group   string // heading in --help
	Default string // as a user would write it
	Help    string // one line
	Live    bool   // CONFIG SET may change it
	Secret  bool   // never shown in errors and logs
	Joined  bool   // shares the --help line of the setting before it

	in func(*Values) value // its place in v, and what is allowed there
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
		in:   func(v *Values) value { return addresses{&v.Listen, true} }},
	{Name: "requirepass", Group: "clients", Secret: true, Live: true,
		Help: "password for AUTH, and the time for it",
		in:   func(v *Values) value { return text{&v.RequirePass, "any text, empty for none"} }},
	{Name: "auth-timeout", Group: "clients", Default: "1m", Live: true, Joined: true,
		Help: "how long a client that needs AUTH has for it; 0s: for ever",
		in:   func(v *Values) value { return duration{&v.AuthTimeout, 0, 24 * time.Hour} }},
	{Name: "protected-mode", Group: "clients", Default: "yes", Live: true,
		Help: "never open without AUTH, and as whose user",
		in:   func(v *Values) value { return yesNo{&v.ProtectedMode} }},
	{Name: "client-auth", Group: "clients", Default: "proxy", Joined: true,
		Help: "whose users clients are: proxy, upstream",
		in:   func(v *Values) value { return choice{&v.ClientAuth, []string{"proxy", "upstream"}} }},
	{Name: "tls-cert", Group: "clients",
		Help: "PEM files: clients on TCP must use TLS",
		in:   func(v *Values) value { return text{&v.TLSCert, "a PEM file"} }},
	{Name: "tls-key", Group: "clients", Joined: true,
		Help: "private key of tls-cert (PEM)",
		in:   func(v *Values) value { return text{&v.TLSKey, "a PEM file"} }},
	{Name: "tls-ca", Group: "clients",
		Help: "PEM file: clients need a certificate of it",
		in:   func(v *Values) value { return text{&v.TLSCA, "a PEM file"} }},
	{Name: "cluster-mode", Group: "clients", Default: "no",
		Help: "look like a cluster, and of which proxies",
		in:   func(v *Values) value { return yesNo{&v.ClusterMode} }},
	{Name: "cluster-announce", Group: "clients", Joined: true,
		Help: "proxies that clients are told of, this one first; empty: where they connect",
		in:   func(v *Values) value { return addresses{&v.ClusterAnnounce, false} }},

	{Name: "upstream", Group: "upstream",
		Help: "any nodes: cluster, sentinels or one Redis",
		in:   func(v *Values) value { return addresses{&v.Upstream, true} }},
	{Name: "upstream-user", Group: "upstream",
		Help: "ACL user there, and its password",
		in:   func(v *Values) value { return text{&v.UpstreamUser, "an ACL user, empty for default"} }},
	{Name: "upstream-password", Group: "upstream", Secret: true, Joined: true,
		Help: "password at the upstream",
		in:   func(v *Values) value { return text{&v.UpstreamPassword, "any text, empty for none"} }},
	{Name: "upstream-tls", Group: "upstream", Default: "no",
		Help: "TLS to the upstream, and who vouches for it",
		in:   func(v *Values) value { return yesNo{&v.UpstreamTLS} }},
	{Name: "upstream-tls-ca", Group: "upstream", Joined: true,
		Help: "PEM file; empty: the system's authorities",
		in:   func(v *Values) value { return text{&v.UpstreamTLSCA, "a PEM file"} }},
	{Name: "upstream-tls-cert", Group: "upstream",
		Help: "PEM files: our certificate there",
		in:   func(v *Values) value { return text{&v.UpstreamTLSCert, "a PEM file"} }},
	{Name: "upstream-tls-key", Group: "upstream", Joined: true,
		Help: "private key of upstream-tls-cert (PEM)",
		in:   func(v *Values) value { return text{&v.UpstreamTLSKey, "a PEM file"} }},
	{Name: "upstream-tls-server-name", Group: "upstream",
		Help: "name it must prove; empty: the host dialled",
		in:   func(v *Values) value { return text{&v.UpstreamTLSServerName, "a host name"} }},
	{Name: "sentinel-master", Group: "upstream",
		Help: "which master, if the sentinels watch several",
		in:   func(v *Values) value { return text{&v.SentinelMaster, "a name the sentinels know"} }},
	{Name: "sentinel-user", Group: "upstream",
		Help: "ACL user at the sentinels, and its password",
		in:   func(v *Values) value { return text{&v.SentinelUser, "an ACL user, empty for default"} }},
	{Name: "sentinel-password", Group: "upstream", Secret: true, Joined: true,
		Help: "password at the sentinels",
		in:   func(v *Values) value { return text{&v.SentinelPassword, "any text, empty for none"} }},
	{Name: "dev", Group: "upstream", Default: "no",
		Help: "no upstream: in memory, nothing survives",
		in:   func(v *Values) value { return yesNo{&v.Dev} }},
	{Name: "upstream-connect-timeout", Group: "upstream", Default: "2s",
		Help: "for a connection to one node",
		in: func(v *Values) value {
			return duration{&v.ConnectTimeout, 10 * time.Millisecond, time.Minute}
		}},
	{Name: "upstream-timeout", Group: "upstream", Default: "30s",
		Help: "a node that owes replies may be silent so long",
		in: func(v *Values) value {
			return duration{&v.UpstreamTimeout, 100 * time.Millisecond, time.Hour}
		}},
	{Name: "retry-budget", Group: "upstream", Default: "10s",
		Help: "how long a command rides out a fail-over",
		in:   func(v *Values) value { return duration{&v.RetryBudget, 0, 10 * time.Minute} }},
	{Name: "topology-refresh", Group: "upstream", Default: "1s",
		Help: "how often the topology is asked for, at least",
		in: func(v *Values) value {
			return duration{&v.TopologyRefresh, 50 * time.Millisecond, time.Second}
		}},
	{Name: "replica-reads", Group: "upstream", Default: "readonly",
		Help: "whose reads go there: no, readonly, ...",
		in: func(v *Values) value {
			return choice{&v.ReplicaReads, []string{"no", "readonly", "replica-preferred", "any"}}
		}},
	{Name: "upstream-queue-limit", Group: "upstream", Default: "16mb",
		Help: "queued to a node; then its clients must wait",
		in:   func(v *Values) value { return size{&v.QueueLimit, 64 * kb, gb} }},
	{Name: "script-cache", Group: "upstream", Default: "10000",
		Help: "scripts kept to heal NOSCRIPT; what is refused",
		in:   func(v *Values) value { return number{&v.ScriptCache, 1, 1_000_000} }},
	{Name: "refused-commands", Group: "upstream", Default: strings.Join(commands.RefusedByDefault(), ","), Joined: true,
		Help: "commands that are not passed on; empty: all are that can be",
		in:   func(v *Values) value { return commandList{&v.RefusedCommands} }},

	{Name: "lock-prefix", Group: "locks", Default: "lock:",
		Help: "of the keys of locks; the same in all proxies",
		in:   func(v *Values) value { return prefix{&v.LockPrefix} }},
	{Name: "lock-lease", Group: "locks", Default: "30s",
		Help: "lease without PX or EX, and the longest",
		in:   func(v *Values) value { return duration{&v.LockLease, time.Millisecond, year} }},
	{Name: "lock-max-lease", Group: "locks", Default: "24h", Joined: true,
		Help: "longest lease that may be asked for",
		in:   func(v *Values) value { return duration{&v.LockMaxLease, time.Millisecond, year} }},
	{Name: "lock-max-wait", Group: "locks", Default: "10m",
		Help: "longest WAIT, and waiters of one lock",
		in:   func(v *Values) value { return duration{&v.LockMaxWait, time.Millisecond, 24 * time.Hour} }},
	{Name: "lock-max-queue", Group: "locks", Default: "10000", Joined: true,
		Help: "waiters of one lock; one more gets -QUEUEFULL",
		in:   func(v *Values) value { return number{&v.LockMaxQueue, 1, 1_000_000} }},
	{Name: "lock-max-readers", Group: "locks", Default: "1000",
		Help: "readers of one lock; holds kept alive",
		in:   func(v *Values) value { return number{&v.LockMaxReaders, 1, 1_000_000} }},
	{Name: "lock-max-keepalive", Group: "locks", Default: "1000000", Joined: true,
		Help: "holds that are kept alive at a time",
		in:   func(v *Values) value { return number{&v.LockMaxKept, 1, 100_000_000} }},
	{Name: "lock-sync", Group: "locks", Default: "0",
		Help: "replicas that must have a grant, and how soon",
		in:   func(v *Values) value { return number{&v.LockSync, 0, 16} }},
	{Name: "lock-sync-timeout", Group: "locks", Default: "1s", Joined: true,
		Help: "how long the replicas of SYNC have; then -NOREPLICAS",
		in:   func(v *Values) value { return duration{&v.LockSyncTimeout, time.Millisecond, time.Minute} }},
	{Name: "lock-failover-grace", Group: "locks", Default: "0s",
		Help: "no grants so long after a fail-over; 0s: off",
		in:   func(v *Values) value { return duration{&v.LockFailoverGrace, 0, year} }},
	{Name: "lock-stats-names", Group: "locks", Default: "1000",
		Help: "locks that LOCKCTL STATS tells apart; 0: none",
		in:   func(v *Values) value { return number{&v.LockStatsNames, 0, 1_000_000} }},

	{Name: "redlock", Group: "locks",
		Help: "3, 5, 7 ... independent masters that keep them",
		in:   func(v *Values) value { return addresses{&v.Redlock, true} }},
	{Name: "redlock-prefix", Group: "locks", Joined: true,
		Help: "names of locks that go there begin so; empty: all",
		in:   func(v *Values) value { return words{&v.RedlockPrefix} }},
	{Name: "redlock-node-timeout", Group: "locks", Default: "50ms",
		Help: "for a request to one; at most lock-lease / 20",
		in: func(v *Values) value {
			return duration{&v.RedlockNodeTimeout, time.Millisecond, time.Minute}
		}},
	{Name: "redlock-max-lease", Group: "locks", Default: "1m",
		Help: "longest lease there; silence after a restart",
		in:   func(v *Values) value { return duration{&v.RedlockMaxLease, time.Millisecond, year} }},
	{Name: "redlock-user", Group: "locks",
		Help: "ACL user there, and its password",
		in:   func(v *Values) value { return text{&v.RedlockUser, "an ACL user, empty for default"} }},
	{Name: "redlock-password", Group: "locks", Secret: true, Joined: true,
		Help: "password at the masters of redlock",
		in:   func(v *Values) value { return text{&v.RedlockPassword, "any text, empty for none"} }},

	{Name: "maxclients", Group: "limits", Default: "10000", Live: true,
		Help: "clients at a time, and the memory of all",
		in:   func(v *Values) value { return number{&v.MaxClients, 1, 1_000_000} }},
	{Name: "maxmemory-clients", Group: "limits", Default: "25%", Live: true, Joined: true,
		Help: "memory of all clients together; who takes most is closed first; 0: any",
		in:   func(v *Values) value { return memoryShare{&v.MaxMemory} }},
	{Name: "timeout", Group: "limits", Default: "0", Live: true,
		Help: "seconds a client may idle; 0: for ever",
		in:   func(v *Values) value { return seconds{&v.Timeout, 1<<31 - 1} }},
	{Name: "tcp-keepalive", Group: "limits", Default: "300", Live: true, Joined: true,
		Help: "seconds between probes of a client; 0: none",
		in:   func(v *Values) value { return seconds{&v.TCPKeepAlive, 32767} }},
	{Name: "proto-max-bulk-len", Group: "limits", Default: "512mb", Live: true,
		Help: "one argument of a command",
		in:   func(v *Values) value { return size{&v.MaxBulk, mb, 1 << 40} }},
	{Name: "proto-max-multibulk-len", Group: "limits", Default: "1048576",
		Help: "arguments of a command",
		in:   func(v *Values) value { return number{&v.MaxMultiBulk, 16, 1<<31 - 1} }},
	{Name: "proto-inline-max-size", Group: "limits", Default: "64kb",
		Help: "a command typed as a line of text",
		in:   func(v *Values) value { return size{&v.MaxInline, kb, mb} }},
	{Name: "client-query-buffer-limit", Group: "limits", Default: "1gb", Live: true,
		Help: "one whole command",
		in:   func(v *Values) value { return size{&v.QueryBufferLimit, mb, 1 << 40} }},
	{Name: "client-output-buffer-limit", Group: "limits", Default: "1gb", Live: true,
		Help: "left unread; subscribers 32mb, 8mb for 60 s",
		in:   func(v *Values) value { return outputLimits{&v.OutputLimits} }},
	{Name: "client-max-pipeline", Group: "limits", Default: "1024",
		Help: "commands of one client on their way",
		in:   func(v *Values) value { return number{&v.MaxPipeline, 1, 1_000_000} }},
	{Name: "upstream-own-connections", Group: "limits", Default: "4096", Joined: true,
		Help: "connections there for one client each: while it blocks",
		in:   func(v *Values) value { return number{&v.OwnConnections, 1, 1_000_000} }},

	{Name: "admin", Group: "program", Default: "127.0.0.1:6390",
		Help: "HTTP: /metrics /healthz /readyz; off for none",
		in:   func(v *Values) value { return address{&v.Admin} }},
	{Name: "admin-hosts", Group: "program", Joined: true,
		Help: "host names under which it may be asked, beside localhost and IP addresses",
		in:   func(v *Values) value { return hosts{&v.AdminHosts} }},
	{Name: "admin-pprof", Group: "program", Default: "no",
		Help: "profiles at /debug/pprof; event loops",
		in:   func(v *Values) value { return yesNo{&v.AdminPprof} }},
	{Name: "loops", Group: "program", Default: "0", Joined: true,
		Help: "event loops; 0: from the cores",
		in:   func(v *Values) value { return number{&v.Loops, 0, 256} }},
	{Name: "drain-timeout", Group: "program", Default: "10s", Live: true,
		Help: "how long SIGTERM lets commands finish",
		in:   func(v *Values) value { return duration{&v.DrainTimeout, 0, time.Hour} }},
	{Name: "log-level", Group: "program", Default: "info", Live: true,
		Help: "debug, info, warn, error",
		in:   func(v *Values) value { return choice{&v.LogLevel, []string{"debug", "info", "warn", "error"}} }},
	{Name: "log-format", Group: "program", Default: "text", Joined: true,
		Help: "text or json, on standard error",
		in:   func(v *Values) value { return choice{&v.LogFormat, []string{"text", "json"}} }},
	{Name: "config", Group: "program",
		Help: "file with lines as in redis.conf",
		in:   func(v *Values) value { return text{&v.ConfigFile, "a file"} }},
}

// find returns the setting called name, nil if there is none.
func find(name string) *Setting {
	for i := range settings {
		if settings[i].Name == name {
			return &settings[i]
		}
	}
	return nil
}

// defaults are the values when nothing is set.
func defaults() *Values {
	v := new(Values)
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

// allowed says what the setting takes.
func (s *Setting) allowed() string { return s.in(new(Values)).Allowed() }

// boolean says that the flag needs no value.
func (s *Setting) boolean() bool {
	_, ok := s.in(new(Values)).(yesNo)
	return ok
}
