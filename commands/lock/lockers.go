package lock

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"lockproxy/cluster/master"
	"lockproxy/commands"
	"lockproxy/commands/holds"
	"lockproxy/redlock"
	"lockproxy/redlock/locks"
	"lockproxy/redlock/peers"
	"lockproxy/redlock/who"
)

// Lockers has the lock engines of a proxy and knows which of them has which lock. Immutable. A lock belongs
// to an engine by its name alone, so every proxy with the same settings finds the same engine. Plain is
// always there.
type Lockers struct {
	Plain    *locks.Locker // over the upstream
	Compat   *locks.Locker // over the upstream too, in the form of other libraries; nil: there are none
	Quorum   *locks.Locker // over several independent masters; nil: there are none
	Prefixes []string      // prefixes of the names of its locks; none: it has all locks
	// CompatPrefixes are those of the names of the locks of Compat.
	CompatPrefixes []string
	// LeastLease is the shortest lease that Quorum grants.
	LeastLease time.Duration
	Announce   commands.Announcer // tells who waits with NOTIFY
	Waits      *holds.Room        // for those waits
	// Who knows which clients hold locks and wait for them; nil: nobody does.
	Who   *who.Who
	Peers *peers.Peers // other proxies; nil: there are none
	// Ask asks any master of the upstream, as the proxy. It blocks. nil: all users have all rights.
	Ask func(ctx context.Context, req []byte) (reply []byte, err error)
	// Masters returns the health of Quorum's masters.
	Masters func() []master.Health
	Ledger  *Ledger // notes what becomes of the locks
	// Busiest counts what happens to some of the locks, one by one; nil: nobody does.
	Busiest *Busiest
	// Events says that all proxies can be heard of what happens to locks.
	Events bool
}

// engineOf returns the engine of a lock, by the name that the client gives. CompatPrefixes are none without
// Compat. With Quorum and no Prefixes it has all others.
func (l *Lockers) engineOf(name []byte) *locks.Locker {
	switch {
	case begins(name, l.CompatPrefixes):
		return l.Compat
	case l.Quorum == nil:
		return l.Plain
	case len(l.Prefixes) == 0 || begins(redlock.Unbraced(name), l.Prefixes):
		return l.Quorum
	}
	return l.Plain
}

// begins says that name begins with one of prefixes. A prefix that is empty fits all names.
func begins(name []byte, prefixes []string) bool {
	return slices.ContainsFunc(prefixes, func(p string) bool { return bytes.HasPrefix(name, []byte(p)) })
}

// Independent says that the lock of that name is kept by independent masters. For such a lock, later verbs of
// a client wait until its earlier ones are answered (proxy/lockorder), since its requests go to several
// masters.
func (l *Lockers) Independent(name []byte) bool {
	return l.Quorum != nil && l.engineOf(name) == l.Quorum
}

// engines returns the engines whose locks can be listed. Those of Compat are not: each is a key like any
// other.
func (l *Lockers) engines() []*locks.Locker {
	if l.Quorum == nil {
		return []*locks.Locker{l.Plain}
	}
	return []*locks.Locker{l.Plain, l.Quorum}
}

// Stats are the counters of all engines. A counter of the proxy is the sum over them.
func (l *Lockers) Stats() locks.Stats {
	s := l.Plain.Stats()
	for _, other := range []*locks.Locker{l.Compat, l.Quorum} {
		if other != nil {
			s = s.Plus(other.Stats())
		}
	}
	return s
}

// allows returns an error if engine cannot do what the LOCK asks for. It is asked when the arguments are
// read, before anything is sent. A nil error says nothing about the lock.
func (l *Lockers) allows(engine *locks.Locker, mode redlock.Mode, a *arguments) error {
	switch {
	case engine == l.Compat:
		return allowsCompat(mode, a)
	case engine != l.Quorum:
		return nil
	case a.Permits > 0:
		return errors.New("ERR SEMLOCK is not for locks of RedLock: its masters agree on who holds a lock, " +
			"not yet on who of many holds a permit; take a name whose locks are kept by the upstream")
	// SYNC 0 asks for what is the case anyway.
	case a.syncs && a.Sync > 0:
		return errors.New("ERR SYNC is not for locks of RedLock: its masters have no replicas, most of " +
			"them have the grant anyway")
	case a.Lease > 0 && a.Lease < l.LeastLease:
		return fmt.Errorf("ERR a lease of %d ms is too short for RedLock: %d ms are the least, four times "+
			"redlock-node-timeout",
			a.Lease.Milliseconds(), l.LeastLease.Milliseconds())
	}
	return nil
}

// allowsCompat returns an error if a lock in the form of another library cannot have what the LOCK asks for.
// What such a key has room for is a token and a lease.
func allowsCompat(mode redlock.Mode, a *arguments) error {
	for _, o := range []struct {
		asked bool
		word  string
	}{
		{mode == redlock.Permit, "SEMLOCK"}, {mode == redlock.Read, "a lock for reading"},
		{a.Reentrant, "REENTRANT"}, {a.Meta != "", "META"},
		{a.Named != "", "ID"}, {a.AtLeast > 0, "ATLEAST"},
	} {
		if o.asked {
			return fmt.Errorf("ERR %s is not for locks of lock-compat: the form of the other library has no "+
				"room for it", o.word)
		}
	}
	return nil
}
