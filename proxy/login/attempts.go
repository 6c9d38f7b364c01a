// Package login makes guessing passwords slow, and lets few clients log in at the upstream at a time.
//
//	AUTH --> Attempts.MustWait: is it too soon after a wrong password, of the connection or of its address?
//	     --> a user of the upstream: Queue.Enter ... a connection as that user ... Queue.Leave
//	     --> wrong: Attempts.Failed, Addresses.Failed, and a line of Failures
//
// Each wrong password has the next attempt of its connection wait, and many of them all attempts from that
// address. Who waits is not read; all others of the loop go on. The wait comes before the password is looked
// at, and is the same for a right one: the time of the answer tells nothing. It is bounded, so clients that
// share an address with one that guesses still get in.
//
// What each client knows belongs to its loop (Attempts); all else is safe for concurrent use.
package login

import (
	"net/netip"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"lockproxy/proxy/client"
)

const (
	// FirstPause is how long a connection waits after its first wrong password. Each further one doubles it,
	// up to MaxPause.
	FirstPause = 100 * time.Millisecond
	MaxPause   = 5 * time.Second
	// freeFailures is how many wrong passwords of an address have no effect on its other connections.
	freeFailures = 20
	// pausePerFailure is how much each one above it adds to the wait, up to MaxAddressPause.
	pausePerFailure = 10 * time.Millisecond
	MaxAddressPause = 2 * time.Second
	// forgivenPerSecond is how many wrong passwords of an address are forgotten in a second.
	forgivenPerSecond = 10
	// maxAddresses bounds the addresses that are remembered.
	maxAddresses = 10_000
)

// Attempts is what is known of the wrong passwords of one connection.
type Attempts struct {
	failed int       // in a row
	from   time.Time // when the next one is looked at
	held   bool      // one is being held back until then
}

// Failed notes a wrong password.
func (a *Attempts) Failed(now time.Time) {
	a.from = now.Add(min(FirstPause<<min(a.failed, 10), MaxPause))
	a.failed++
}

// Reset notes a right one.
func (a *Attempts) Reset() { *a = Attempts{} }

// TooSoon says that the next attempt is not to be looked at yet.
func (a *Attempts) TooSoon() bool { return time.Now().Before(a.from) }

// Addresses is what is known of the wrong passwords of each address. Safe for concurrent use.
type Addresses struct {
	mu     sync.Mutex
	counts *lru.Cache[string, addressFailures]
}

// addressFailures counts the wrong passwords of an address that are not forgotten.
type addressFailures struct {
	count float64
	at    time.Time // when it was so many
}

// NewAddresses knows of none.
func NewAddresses() *Addresses {
	cache, err := lru.New[string, addressFailures](maxAddresses)
	if err != nil {
		panic(err) // it is the size alone that may be wrong
	}
	return &Addresses{counts: cache}
}

// left is the count at now.
func (f addressFailures) left(now time.Time) float64 {
	return max(f.count-now.Sub(f.at).Seconds()*forgivenPerSecond, 0)
}

// Failed notes a wrong password. More than have an effect are not counted, so that what an attack leaves
// behind is forgotten soon.
func (a *Addresses) Failed(address string, now time.Time) {
	const most = freeFailures + float64(MaxAddressPause/pausePerFailure)
	a.mu.Lock()
	defer a.mu.Unlock()
	f, _ := a.counts.Get(address)
	a.counts.Add(address, addressFailures{min(f.left(now)+1, most), now})
}

// pause is how long an attempt from that address has to wait.
func (a *Addresses) pause(address string, now time.Time) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	f, known := a.counts.Peek(address)
	if !known {
		return 0
	}
	return time.Duration(max(f.left(now)-freeFailures, 0) * float64(pausePerFailure))
}

// Origin is what of a client's address is taken for one origin: an IPv4 address, or the network of an IPv6
// address, of which a single host has 2^64. Clients of a unix socket are all one.
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

// MustWait says that an attempt of the client to authenticate is not looked at yet. It is given to dispatch
// again in time.
func (a *Attempts) MustWait(h client.Host, known *Addresses) bool {
	now := time.Now()
	if !a.held {
		pause := known.pause(Origin(h.About().Addr), now)
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
