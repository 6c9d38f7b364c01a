package settings

import (
	"log/slog"
	"slices"
	"strings"
	"time"

	"lockproxy/cluster"
	"lockproxy/cluster/discovery"
	"lockproxy/cluster/master"
	"lockproxy/proxy"
)

// Values are all settings in parsed form: the options of the packages that they are for, and what the program
// keeps for itself. What the program alone can give, such as a log, is not in these options yet: wire.go adds
// it. One Values never changes: CONFIG SET makes a new one (Config). Slices in it are not written to either,
// so a copy of the struct is a copy.
type Values struct {
	Upstream discovery.Options // where the data lives
	Masters  master.Options    // of RedLock
	Proxy    proxy.Options     // with those of its connections to nodes and of locks

	Listen        []string // TCP addresses and paths of unix sockets
	ListenEarly   bool     // before the upstream is found
	ProtectedMode bool
	MaxMemory     MemoryShare // of all clients together
	TLS           PEM         // with a CA clients must show a certificate

	Detours     cluster.Detours // to the nodes of the upstream
	DetoursFile string          // that has them

	UpstreamTLS struct {
		On bool
		PEM
		ServerName string
	}
	Dev bool

	UpstreamFrom, SentinelFrom, RedlockFrom PasswordFrom
	PasswordInterval                        time.Duration // between runs of their commands
	ClientsFrom                             PasswordFrom  // of what clients give; a file or nothing

	Redlock []string // addresses of Masters; none: there is no RedLock

	Admin struct {
		Addr      string   // "": there is none
		Hosts     []string // names beside localhost and its own
		Protected bool
		Password  string
		From      PasswordFrom
		TLS       PEM // with a CA who asks must show a certificate
		Pprof     bool
		Actions   bool // locks may be broken there
	}

	DrainTimeout time.Duration
	DrainDelay   time.Duration // before DrainTimeout
	LogLevel     slog.Level
	LogFormat    string
	AuditLog     string // a file, or stderr; "": none
}

// PEM are the files of TLS: a certificate, its key, the authority of those of others.
type PEM struct{ Cert, Key, CA string }

// Pair says that there are both of a certificate and its key.
func (p PEM) Pair() bool { return p.Cert != "" && p.Key != "" }

// PasswordFrom is the source of a password that is not a setting itself. Both empty: there is none.
type PasswordFrom struct {
	File    string // reread when it changes
	Command string // run each password-command-interval, and when a node refuses what it said last
}

// Given says that there is a source.
func (f PasswordFrom) Given() bool { return f.File != "" || f.Command != "" }

// Open says that a client needs no password. A file counts whatever it holds: one that gives no password is
// refused when it is read.
func (v *Values) Open() bool {
	return v.Proxy.Password == "" && !v.ClientsFrom.Given() && !v.Proxy.UsersOnly
}

// AdminOpen says that whoever reaches the admin listener needs no password and no certificate.
func (v *Values) AdminOpen() bool {
	return v.Admin.Password == "" && !v.Admin.From.Given() && v.Admin.TLS.CA == ""
}

// LongestRedlockLease is the longest lease of a lock over the masters of RedLock.
func (v *Values) LongestRedlockLease() time.Duration {
	// No grant there is longer than either allows.
	return min(v.Proxy.Redlock.MaxLease, v.Proxy.Locks.MaxLease)
}

// quarantine is for how long a master of RedLock does not vote that has restarted, "" without RedLock.
func (v *Values) quarantine() string {
	if len(v.Redlock) == 0 {
		return ""
	}
	return v.LongestRedlockLease().String()
}

// Same is what all proxies must have the same that share locks, by the name of the setting. Proxies send it
// to each other, and warn where it differs.
func (v *Values) Same() map[string]string {
	all := make(map[string]string)
	for _, s := range table(v) {
		if s.same != nil {
			all[s.Name] = s.same()
		}
	}
	return all
}

// unordered is words in one order, whatever theirs is.
func unordered(words []string) string {
	return strings.Join(slices.Compact(slices.Sorted(slices.Values(words))), ",")
}
