package settings

import (
	"errors"
	"fmt"
	"net"
	"strings"

	"lockproxy/commands"
	"lockproxy/proxy"
)

// ErrNoUpstream explains the one decision that has no default: a lock service
// must not fall back in silence to a store that nobody shares.
var ErrNoUpstream = errors.New(
	`neither --upstream nor --dev is given: lockproxy needs to know where the data lives.

  lockproxy --upstream 10.0.0.1:6379,10.0.0.2:6379
      stands before a Redis Cluster, a Sentinel group or one Redis: name any nodes
      of it, which of the three it is is found out by asking.

  lockproxy --dev
      needs no Redis: it keeps one in its own memory, to try things out. Nothing
      survives the process, and no other proxy shares its locks.

lockproxy --help lists all settings.`)

// check finds what is wrong with settings that are each right by themselves.
func check(v *Values) error {
	var wrong []error
	refuse := func(format string, args ...any) { wrong = append(wrong, fmt.Errorf(format, args...)) }

	switch {
	case v.Dev && len(v.Upstream.Addrs) > 0:
		refuse("dev and upstream exclude each other: with dev yes there is no upstream, and %s was given",
			strings.Join(v.Upstream.Addrs, ","))
	case v.Dev && v.Takeover != "":
		refuse("takeover %s: is not for dev yes, whose data would not be taken over", v.Takeover)
	case !v.Dev && len(v.Upstream.Addrs) == 0:
		wrong = append(wrong, ErrNoUpstream)
	}
	for _, s := range []struct {
		name, password string
		from           PasswordFrom
	}{
		{"upstream", v.Upstream.Password, v.UpstreamFrom},
		{"sentinel", v.Upstream.SentinelPassword, v.SentinelFrom},
		{"redlock", v.Masters.Password, v.RedlockFrom},
	} {
		if s.from.Given() && s.password != "" || s.from.File != "" && s.from.Command != "" {
			refuse("%[1]s-password, %[1]s-password-file and %[1]s-password-command exclude each other: "+
				"more than one of them is given", s.name)
		}
	}
	if len(v.Detours) > 0 && v.DetoursFile != "" {
		refuse("upstream-map and upstream-map-file exclude each other: both are given")
	}
	if v.Proxy.Password != "" && v.ClientsFrom.Given() {
		refuse("requirepass and requirepass-file exclude each other: both are given")
	}
	if sameZone := v.Proxy.ReplicaReads == commands.ReadsSameZone; sameZone != (v.Upstream.Zone != "") {
		refuse("replica-reads same-zone and availability-zone go together: one of them is not set")
	}
	if len(v.Listen) == 0 {
		refuse("listen: needs an address; allowed: %s", Find("listen").allowed())
	}
	for _, addr := range v.Listen {
		if v.ProtectedMode && v.Open() && !IsLoopback(addr) {
			refuse("listen %s: reaches beyond this machine, and no password is set, so anybody could take "+
				"and free locks: "+
				"set requirepass, requirepass-file or client-auth upstream, or listen on 127.0.0.1, or "+
				"allow it with protected-mode no", addr)
		}
	}
	switch {
	case v.Proxy.UsersOnly && v.Proxy.Password != "":
		refuse("client-auth upstream and requirepass exclude each other: clients give the passwords of " +
			"the upstream's users; " +
			"leave requirepass empty, or set client-auth proxy")
	case v.Proxy.UsersOnly && v.ClientsFrom.Given():
		refuse("client-auth upstream and requirepass-file exclude each other: clients give the passwords " +
			"of the upstream's users; leave requirepass-file empty, or set client-auth proxy")
	case v.Proxy.UsersOnly && v.Dev:
		refuse("client-auth upstream: needs an upstream, for with dev yes there are no users")
	}
	checkAdmin(v, refuse)
	if (v.TLSCert == "") != (v.TLSKey == "") {
		refuse("tls-cert and tls-key: only one of them is given, and they need each other")
	}
	if v.TLSCA != "" && v.TLSCert == "" {
		refuse("tls-ca %s: needs tls-cert and tls-key", v.TLSCA)
	}
	if (v.UpstreamTLSCert == "") != (v.UpstreamTLSKey == "") {
		refuse("upstream-tls-cert and upstream-tls-key: only one of them is given, and they need each other")
	}
	for _, s := range []struct{ name, value string }{
		{"upstream-tls-ca", v.UpstreamTLSCA},
		{"upstream-tls-cert", v.UpstreamTLSCert},
		{"upstream-tls-server-name", v.UpstreamTLSServerName},
	} {
		if s.value != "" && !v.UpstreamTLS {
			refuse("%s %s: has no effect without upstream-tls yes", s.name, s.value)
		}
	}
	if len(v.Proxy.Announce) > 0 && !v.Proxy.ClusterMode {
		refuse("cluster-announce %s: has no effect without cluster-mode yes",
			strings.Join(v.Proxy.Announce, ","))
	}
	for _, addr := range v.Proxy.Announce {
		if host, port, _ := net.SplitHostPort(addr); host == "" || port == "0" {
			refuse("cluster-announce %s: clients cannot connect there: name a host and its port", addr)
		}
	}
	if v.Proxy.Locks.Lease > v.Proxy.Locks.MaxLease {
		refuse("lock-lease %s: must not be longer than lock-max-lease, which is %s",
			formatDuration(v.Proxy.Locks.Lease), formatDuration(v.Proxy.Locks.MaxLease))
	}
	if v.Proxy.Locks.Sync > 0 && v.Proxy.Locks.SyncTimeout > v.Proxy.Locks.Lease/2 {
		refuse("lock-sync-timeout %s: must be at most half of lock-lease, which is %s, or a grant is over "+
			"before its replicas have it",
			formatDuration(v.Proxy.Locks.SyncTimeout), formatDuration(v.Proxy.Locks.Lease))
	}
	if v.Proxy.Locks.FailoverGrace > 0 && v.Proxy.Locks.FailoverGrace < v.Proxy.Locks.Lease {
		refuse("lock-failover-grace %s: must not be shorter than lock-lease, which is %s: it has to "+
			"outlast the leases in use",
			formatDuration(v.Proxy.Locks.FailoverGrace), formatDuration(v.Proxy.Locks.Lease))
	}
	checkRedlock(v, refuse)
	checkCompat(v, refuse)
	return errors.Join(wrong...)
}

// checkAdmin is the part of check about the admin listener.
func checkAdmin(v *Values, refuse func(format string, args ...any)) {
	if v.AdminProtected && v.Admin != "" && v.AdminOpen() && !IsLoopback(v.Admin) {
		refuse("admin %s: reaches beyond this machine, and anybody could ask it: set admin-password or "+
			"admin-tls-ca, or listen on 127.0.0.1, or allow it with admin-protected-mode no", v.Admin)
	}
	if v.AdminActions && v.AdminOpen() {
		refuse("admin-actions yes: anybody who reaches the page could break locks: set admin-password or " +
			"admin-tls-ca")
	}
	if v.AdminPassword != "" && v.AdminFrom.Given() {
		refuse("admin-password and admin-password-file exclude each other: both are given")
	}
	if (v.AdminTLSCert == "") != (v.AdminTLSKey == "") {
		refuse("admin-tls-cert and admin-tls-key: only one of them is given, and they need each other")
	}
	if v.AdminTLSCA != "" && v.AdminTLSCert == "" {
		refuse("admin-tls-ca %s: needs admin-tls-cert and admin-tls-key", v.AdminTLSCA)
	}
	for _, s := range []struct {
		name  string
		given bool
	}{
		{"admin-hosts", len(v.AdminHosts) > 0}, {"admin-password", v.AdminPassword != ""},
		{"admin-password-file", v.AdminFrom.Given()}, {"admin-tls-cert", v.AdminTLSCert != ""},
	} {
		if s.given && v.Admin == "" {
			refuse("%s: has no effect with admin off", s.name)
		}
	}
}

// checkRedlock is the part of check about locks over independent masters.
func checkRedlock(v *Values, refuse func(format string, args ...any)) {
	n := len(v.Redlock)
	switch {
	case n == 0 && len(v.Proxy.Redlock.Prefixes) > 0:
		refuse("redlock-prefix %s: has no effect without redlock",
			strings.Join(v.Proxy.Redlock.Prefixes, ","))
	case n == 0:
		return
	case n < 3:
		refuse("redlock: %d of at least 3 masters are named; if it is one Redis, name it with upstream", n)
	case n%2 == 0:
		refuse("redlock: names %d masters, and needs an odd number: with %d as many may fail", n, n-1)
	}
	if n > 0 && v.Proxy.Locks.Lease > v.Proxy.Redlock.MaxLease {
		refuse("lock-lease %s: must not be longer than redlock-max-lease, which is %s",
			formatDuration(v.Proxy.Locks.Lease), formatDuration(v.Proxy.Redlock.MaxLease))
	}
	if proxy.LeastLeases*v.Proxy.Redlock.NodeTimeout > v.Proxy.Locks.Lease {
		refuse("redlock-node-timeout %s: must be at most a quarter of lock-lease, which is %s, or much "+
			"of a lease is over before it is granted",
			formatDuration(v.Proxy.Redlock.NodeTimeout), formatDuration(v.Proxy.Locks.Lease))
	}
	if v.Proxy.Locks.Sync > 0 {
		refuse("lock-sync %d: is not for redlock, whose masters have no replicas; set it to 0",
			v.Proxy.Locks.Sync)
	}
}

// checkCompat is the part of check about locks in the form of other libraries: no name may have two forms.
func checkCompat(v *Values, refuse func(format string, args ...any)) {
	if a, b, found := overlap(v.Proxy.Compat, v.Proxy.Redlock.Prefixes); found {
		refuse("lock-compat %s: some names would begin with %s of redlock-prefix, too", a, b)
	}
	if a, own, found := overlap(v.Proxy.Compat, []string{v.Proxy.Locks.Prefix}); found {
		refuse("lock-compat %s: the keys would be among those of other locks, which begin with %s "+
			"(lock-prefix)", a, own)
	}
}

// overlap finds one of some and one of others of which one begins with the other.
func overlap(some, others []string) (a, b string, found bool) {
	for _, a := range some {
		for _, b := range others {
			if strings.HasPrefix(a, b) || strings.HasPrefix(b, a) {
				return a, b, true
			}
		}
	}
	return "", "", false
}

// IsLoopback says that addr, host:port or a path, can be reached from this machine only.
func IsLoopback(addr string) bool {
	if IsSocket(addr) {
		return true
	}
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return false
	}
	return host == "localhost" || net.ParseIP(host).IsLoopback()
}
