// Package login makes guessing passwords slow, and lets only a few clients at a time log in at the upstream.
//
//	AUTH --> Attempts.MustWait: is it too soon after a wrong password, of the connection or of its address?
//	     --> a user of the upstream: Queue.Enter ... a connection as that user ... Queue.Leave
//	     --> wrong: Attempts.Failed, Addresses.Failed, and a line of Failures
//
// After a wrong password the next attempt of the connection has to wait; after many, all attempts from that
// address. A client that waits is not read; all others of the loop go on. The wait comes before the password
// is checked and is the same for a right one, so the time of the answer tells nothing. It is bounded, so
// clients that share an address with one that guesses still get in.
//
// What is known of one connection belongs to its loop (Attempts); the rest is safe for concurrent use.
package login

import (
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"lockproxy/commands"
	"lockproxy/proxy/client"
)

const (
	// FirstPause is how long a connection waits after its first wrong password. Each further one doubles it,
	// up to MaxPause.
	FirstPause = 100 * time.Millisecond
	MaxPause   = 5 * time.Second
	// freeFailures is how many wrong passwords from an address leave its other connections alone.
	freeFailures = 20
	// pausePerFailure is what each further one adds to the wait, up to MaxAddressPause.
	pausePerFailure = 10 * time.Millisecond
	MaxAddressPause = 2 * time.Second
	// forgivenPerSecond is how many wrong passwords of an address are forgotten in a second.
	forgivenPerSecond = 10
	// maxAddresses bounds the addresses that are remembered.
	maxAddresses = 10_000
)

// Record is what is known of attempts to get in, by all clients. Safe for concurrent use.
type Record struct {
	Addresses *Addresses
	Queue     Queue
	Failures  Failures
	Timeouts  atomic.Uint64 // clients that were closed because they did not authenticate in time
	Unable    atomic.Bool   // it was logged that the proxy's user cannot ask what other users may do
}

// Attempts counts the wrong passwords of one connection.
type Attempts struct {
	failed int       // in a row
	from   time.Time // when the next attempt may be checked
	held   bool      // an attempt is being held back until then
	owed   time.Time // since when the client has been seen without authentication that it needs
}

// Failed notes a wrong password.
func (a *Attempts) Failed(now time.Time) {
	a.from = now.Add(min(FirstPause<<min(a.failed, 10), MaxPause))
	a.failed++
}

// Reset notes a right password.
func (a *Attempts) Reset() { *a = Attempts{owed: a.owed} }

// Overdue is asked once a second: it says that the client has not authenticated for longer than limit, though
// it must. A limit of 0 or less is none.
func (a *Attempts) Overdue(authenticated bool, now time.Time, limit time.Duration) bool {
	switch {
	case authenticated || limit <= 0:
		a.owed = time.Time{}
	case a.owed.IsZero():
		a.owed = now
	default:
		return now.Sub(a.owed) >= limit
	}
	return false
}

// TooSoon says that the next attempt must not be checked yet.
func (a *Attempts) TooSoon() bool { return time.Now().Before(a.from) }

// Addresses counts the wrong passwords of each address. Safe for concurrent use.
type Addresses struct {
	mu     sync.Mutex
	counts *lru.Cache[string, addressFailures]
}

// addressFailures counts the wrong passwords of an address, less those that are forgotten.
type addressFailures struct {
	count float64
	at    time.Time // when the count was taken
}

// NewAddresses knows of none.
func NewAddresses() *Addresses {
	cache, err := lru.New[string, addressFailures](maxAddresses)
	if err != nil {
		panic(err) // only a wrong size can fail
	}
	return &Addresses{counts: cache}
}

// leftAt is what is left of the count at now.
func (f addressFailures) leftAt(now time.Time) float64 {
	return max(f.count-now.Sub(f.at).Seconds()*forgivenPerSecond, 0)
}

// Failed notes a wrong password. The count stops where it no longer has an effect, so that an attack is soon
// forgotten.
func (a *Addresses) Failed(address string, now time.Time) {
	const most = freeFailures + float64(MaxAddressPause/pausePerFailure)
	a.mu.Lock()
	defer a.mu.Unlock()
	f, _ := a.counts.Get(address)
	a.counts.Add(address, addressFailures{min(f.leftAt(now)+1, most), now})
}

// Pause is how long an attempt from that address has to wait.
func (a *Addresses) Pause(address string, now time.Time) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	f, known := a.counts.Peek(address)
	if !known {
		return 0
	}
	return time.Duration(max(f.leftAt(now)-freeFailures, 0) * float64(pausePerFailure))
}

// Origin is the part of a client's address that counts as one origin: an IPv4 address, or the network of an
// IPv6 address, since one host has 2^64 of these. All clients of a unix socket are one origin.
func Origin(addr string) string {
	ap, err := netip.ParseAddrPort(addr)
	if err != nil {
		return addr
	}
	ip := ap.Addr().Unmap().WithZone("")
	if ip.Is6() && !ip.IsLoopback() {
		if network, err := ip.Prefix(64); err == nil {
			return network.String()
		}
	}
	return ip.String()
}

// MustWait says that the client's attempt to authenticate must not be checked yet. It will be dispatched
// again in time. The wait of the address is looked at once for each attempt: looked at again it would grow
// with the failures of others, and never end.
func (a *Attempts) MustWait(h client.Host, known *Addresses) bool {
	now := time.Now()
	if !a.held {
		pause := known.Pause(Origin(h.About().Addr), now)
		if from := now.Add(pause); from.After(a.from) {
			a.from = from
		}
	}
	wait := a.from.Sub(now)
	if a.held = wait > 0; a.held {
		h.SetHold(client.HoldLogin)
		h.Loop().After(wait, func() { h.ClearHold(client.HoldLogin) })
	}
	return a.held
}

// ErrTooSoon is for an attempt in a transaction, which cannot wait.
var ErrTooSoon = []byte("-ERR AUTH behind a wrong password in one transaction is not tried: " +
	"send it after EXEC\r\n")

// IsAttempt says that a command is an attempt to authenticate.
func IsAttempt(cmd *commands.Command, args [][]byte) bool {
	return cmd.Flags&commands.LogsIn != 0 && cmd.HasSecret(args)
}
