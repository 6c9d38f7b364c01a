package settings

import (
	"errors"
	"fmt"
	"net"
	"strings"

	"lockproxy/cmd/lockproxy/kind"
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

// check finds what is wrong with settings that are each right by themselves. It is asked when the settings
// are read, and before each change of them, so a proxy never runs with a combination that it would not start
// with. All that is wrong is told at once.
func check(v *Values) error {
	var wrong []error
	// Each message begins with the settings that it is about: Reading.Add takes the line of the config file
	// from that.
	refuse := func(format string, args ...any) { wrong = append(wrong, fmt.Errorf(format, args...)) }

	switch {
	case v.Dev && len(v.Upstream.Addrs) > 0:
		refuse("dev and upstream exclude each other: with dev yes there is no upstream, and %s was given",
			strings.Join(v.Upstream.Addrs, ","))
	case !v.Dev && len(v.Upstream.Addrs) == 0:
		// as it is, so that it can be told apart from the others
		wrong = append(wrong, ErrNoUpstream)
	}
	if sameZone := v.Proxy.ReplicaReads == commands.ReadsSameZone; sameZone != (v.Upstream.Zone != "") {
		refuse("replica-reads same-zone and availability-zone go together: one of them is not set")
	}
	if len(v.Listen) == 0 {
		refuse("listen: needs an address; allowed: %s", Find("listen").at.Allowed)
	}
	for _, addr := range v.Listen {
		// As Redis's protected-mode, which refuses connections; here the start is refused, so that nobody
		// finds it out later.
		if v.ProtectedMode && v.Open() && !IsLoopback(addr) {
			refuse("listen %s: reaches beyond this machine, and no password is set, so anybody could take "+
				"and free locks: set requirepass, requirepass-file or client-auth upstream, or listen on "+
				"127.0.0.1, or allow it with protected-mode no", addr)
		}
	}
	switch {
	case v.Proxy.UsersOnly && v.Proxy.Password != "":
		refuse("client-auth upstream and requirepass exclude each other: clients give the passwords of the " +
			"upstream's users; leave requirepass empty, or set client-auth proxy")
	case v.Proxy.UsersOnly && v.ClientsFrom.Given():
		refuse("client-auth upstream and requirepass-file exclude each other: clients give the passwords " +
			"of the upstream's users; leave requirepass-file empty, or set client-auth proxy")
	case v.Proxy.UsersOnly && v.Dev:
		refuse("client-auth upstream: needs an upstream, for with dev yes there are no users")
	}
	checkAdmin(v, refuse)
	checkPairs(v, refuse)
	for _, addr := range v.Proxy.Announce {
		// fine to listen on, but nobody can be sent there
		if host, port, _ := net.SplitHostPort(addr); host == "" || port == "0" {
			refuse("cluster-announce %s: clients cannot connect there: name a host and its port", addr)
		}
	}
	if v.Proxy.Locks.Lease > v.Proxy.Locks.MaxLease {
		refuse("lock-lease %s: must not be longer than lock-max-lease, which is %s",
			kind.Short(v.Proxy.Locks.Lease), kind.Short(v.Proxy.Locks.MaxLease))
	}
	if v.Proxy.Locks.Sync > 0 && v.Proxy.Locks.SyncTimeout > v.Proxy.Locks.Lease/2 {
		refuse("lock-sync-timeout %s: must be at most half of lock-lease, which is %s, or a grant is over "+
			"before its replicas have it",
			kind.Short(v.Proxy.Locks.SyncTimeout), kind.Short(v.Proxy.Locks.Lease))
	}
	if v.Proxy.Locks.FailoverGrace > 0 && v.Proxy.Locks.FailoverGrace < v.Proxy.Locks.Lease {
		refuse("lock-failover-grace %s: must not be shorter than lock-lease, which is %s: it has to "+
			"outlast the leases in use",
			kind.Short(v.Proxy.Locks.FailoverGrace), kind.Short(v.Proxy.Locks.Lease))
	}
	checkRedlock(v, refuse)
	checkCompat(v, refuse)
	return errors.Join(wrong...)
}

// checkAdmin is the part of check about the admin listener.
func checkAdmin(v *Values, refuse func(format string, args ...any)) {
	if v.Admin.Protected && v.Admin.Addr != "" && v.AdminOpen() && !IsLoopback(v.Admin.Addr) {
		refuse("admin %s: reaches beyond this machine, and anybody could ask it: set admin-password or "+
			"admin-tls-ca, or listen on 127.0.0.1, or allow it with admin-protected-mode no", v.Admin.Addr)
	}
	// also where only this machine reaches it: any of its users could ask
	if v.Admin.Actions && v.AdminOpen() {
		refuse("admin-actions yes: anybody who reaches the page could break locks: set admin-password or " +
			"admin-tls-ca")
	}
}

// certificates begin the names of those of which tls-cert and tls-key need each other, and tls-ca needs both.
var certificates = []string{"", "upstream-", "admin-"}

// without are settings that have no effect while the other has a value.
var without = []struct{ other, value, why, names string }{
	{"upstream-tls", "no", "without upstream-tls yes", "upstream-tls-ca upstream-tls-cert " +
		"upstream-tls-server-name"},
	{"cluster-mode", "no", "without cluster-mode yes", "cluster-announce"},
	{"redlock", "", "without redlock", "redlock-prefix"},
	{"admin", "", "with admin off", "admin-hosts admin-password admin-password-file admin-tls-cert"},
}

// withValue is the setting with its value, unless that is a secret.
func (s *Setting) withValue(value string) string {
	if s.Secret {
		return s.Name
	}
	return s.Name + " " + value
}

// checkPairs is the part of check about settings that exclude or need each other. A setting of that list that
// has its default counts as not given.
func checkPairs(v *Values, refuse func(format string, args ...any)) {
	all := table(v)
	given := func(name string) string {
		if s := findIn(all, name); s != nil {
			return s.at.String()
		}
		return ""
	}
	for _, s := range all {
		var same, there []string // what says the same
		// The name alone ties them together: whoever adds a setting with -file at its end gets this check.
		for _, one := range []string{s.Name, s.Name + "-file", s.Name + "-command"} {
			if Find(one) != nil {
				same = append(same, one)
			}
			if given(one) != "" {
				there = append(there, one)
			}
		}
		if len(there) > 1 {
			refuse("%s exclude each other: more than one of them is given", strings.Join(same, " and "))
		}
	}
	for _, of := range certificates {
		if (given(of+"tls-cert") == "") != (given(of+"tls-key") == "") {
			refuse("%[1]stls-cert and %[1]stls-key: only one of them is given, and they need each other", of)
		}
		if of != "upstream-" && given(of+"tls-ca") != "" && given(of+"tls-cert") == "" {
			refuse("%[1]stls-ca %[2]s: needs %[1]stls-cert and %[1]stls-key", of, given(of+"tls-ca"))
		}
	}
	for _, w := range without {
		for name := range strings.FieldsSeq(w.names) {
			if given(w.other) == w.value && given(name) != "" {
				refuse("%s: has no effect %s", Find(name).withValue(given(name)), w.why)
			}
		}
	}
}

// checkRedlock is the part of check about locks over independent masters.
func checkRedlock(v *Values, refuse func(format string, args ...any)) {
	n := len(v.Redlock)
	switch {
	case n == 0:
		return
	case n < 3:
		refuse("redlock: %d of at least 3 masters are named; if it is one Redis, name it with upstream", n)
	// four masters survive the loss of one, as three do
	case n%2 == 0:
		refuse("redlock: names %d masters, and needs an odd number: with %d as many may fail", n, n-1)
	}
	if n > 0 && v.Proxy.Locks.Lease > v.Proxy.Redlock.MaxLease {
		refuse("lock-lease %s: must not be longer than redlock-max-lease, which is %s",
			kind.Short(v.Proxy.Locks.Lease), kind.Short(v.Proxy.Redlock.MaxLease))
	}
	if proxy.LeastLeases*v.Proxy.Redlock.NodeTimeout > v.Proxy.Locks.Lease {
		refuse("redlock-node-timeout %s: must be at most a quarter of lock-lease, which is %s, or much "+
			"of a lease is over before it is granted",
			kind.Short(v.Proxy.Redlock.NodeTimeout), kind.Short(v.Proxy.Locks.Lease))
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
	// A prefix that begins with another one names a part of the same locks.
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
	host, _, _ := net.SplitHostPort(addr)
	// Other names are not looked up: what they mean could change, and an empty host is all addresses.
	return host == "localhost" || net.ParseIP(host).IsLoopback()
}
