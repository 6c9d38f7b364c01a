package proxy

import (
	"bytes"
	"net/netip"
	"strings"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"lockproxy/commands"
	"lockproxy/proxy/client"
)

// This file makes guessing passwords slow. Each wrong one has the next attempt of its connection wait, and
// many of them all attempts from that address. Who waits is not read; all others of the loop go on.
//
// The wait comes before the password is looked at, and is the same for a right one: the time of the answer
// tells nothing. It is bounded, so clients that share an address with one that guesses still get in.

const (
	// firstLoginPause is how long a connection waits after its first wrong password. Each further one doubles
	// it, up to maxLoginPause.
	firstLoginPause = 100 * time.Millisecond
	maxLoginPause   = 5 * time.Second
	// freeFailures is how many wrong passwords of an address have no effect on its other connections.
	freeFailures = 20
	// pausePerFailure is how much each one above it adds to the wait, up to maxAddressPause.
	pausePerFailure = 10 * time.Millisecond
	maxAddressPause = 2 * time.Second
	// forgivenPerSecond is how many wrong passwords of an address are forgotten in a second.
	forgivenPerSecond = 10
	// maxAddresses bounds the addresses that are remembered.
	maxAddresses = 10_000
	// maxShownUser is how long a user's name may be that is logged.
	maxShownUser = 64
)

// attempts is what is known of the wrong passwords of one connection.
type attempts struct {
	failed int       // in a row
	from   time.Time // when the next one is looked at
	held   bool      // one is being held back until then
}

// failedNow notes a wrong password.
func (a *attempts) failedNow(now time.Time) {
	a.from = now.Add(min(firstLoginPause<<min(a.failed, 10), maxLoginPause))
	a.failed++
}

// tooSoon says that the next attempt is not to be looked at yet.
func (a *attempts) tooSoon() bool { return time.Now().Before(a.from) }

var errLoginTooSoon = []byte("-ERR AUTH behind a wrong password in one transaction is not tried: " +
	"send it after EXEC\r\n")

// addresses is what is known of the wrong passwords of each address. Safe for concurrent use.
type addresses struct {
	mu     sync.Mutex
	failed *lru.Cache[string, addressFailures]
}

// addressFailures counts the wrong passwords of an address that are not forgotten.
type addressFailures struct {
	count float64
	at    time.Time // when it was so many
}

func newAddresses() *addresses {
	cache, err := lru.New[string, addressFailures](maxAddresses)
	if err != nil {
		panic(err) // it is the size alone that may be wrong
	}
	return &addresses{failed: cache}
}

// left is the count at now.
func (f addressFailures) left(now time.Time) float64 {
	return max(f.count-now.Sub(f.at).Seconds()*forgivenPerSecond, 0)
}

// failedNow notes a wrong password. More than have an effect are not counted, so that what an attack leaves
// behind is forgotten soon.
func (a *addresses) failedNow(address string, now time.Time) {
	const most = freeFailures + float64(maxAddressPause/pausePerFailure)
	a.mu.Lock()
	defer a.mu.Unlock()
	f, _ := a.failed.Get(address)
	a.failed.Add(address, addressFailures{min(f.left(now)+1, most), now})
}

// pause is how long an attempt from that address has to wait.
func (a *addresses) pause(address string, now time.Time) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	f, known := a.failed.Peek(address)
	if !known {
		return 0
	}
	return time.Duration(max(f.left(now)-freeFailures, 0) * float64(pausePerFailure))
}

// originOf is what of a client's address is taken for one origin: an IPv4 address, or the network of an IPv6
// address, of which a single host has 2^64. Clients of a unix socket are all one.
func originOf(addr string) string {
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

// logsIn says that a command is an attempt to authenticate.
func logsIn(cmd *commands.Command, args [][]byte) bool {
	return cmd.Flags&commands.LogsIn != 0 && cmd.HasSecret(args)
}

// mustWait says that an attempt of the client to authenticate is not looked at yet. It is given to dispatch again
// in time.
func (a *attempts) mustWait(h host) bool {
	now, w := time.Now(), h.worker()
	if !a.held {
		pause := w.server.addresses.pause(originOf(h.About().Addr), now)
		if from := now.Add(pause); from.After(a.from) {
			a.from = from
		}
	}
	wait := a.from.Sub(now)
	if a.held = wait > 0; a.held {
		h.SetHold(client.HoldLogin)
		w.loop.After(wait, func() { h.ClearHold(client.HoldLogin) })
	}
	return a.held
}

// LoginEnded implements commands.Server.
func (v whole) LoginEnded(c *commands.Client, user string, upstream bool, refusal []byte) {
	s := v.s
	found, ok := s.byID.Load(c.ID)
	if !ok {
		return
	}
	ses := found.(*session)
	if refusal == nil {
		ses.attempts = attempts{}
		return
	}
	if !bytes.HasPrefix(refusal, []byte("-WRONGPASS")) && !bytes.HasPrefix(refusal, []byte("-ERR invalid password")) {
		return // it says nothing about the password
	}
	now := time.Now()
	ses.attempts.failedNow(now)
	s.addresses.failedNow(originOf(c.Addr), now)
	kind := &s.failures.password
	if upstream {
		kind = &s.failures.user
	}
	kind.note(s.o.Log, "authentication failed", "client", c.Addr, "user", v.shownUser(user))
}

// shownUser is a user's name for the log. What cannot be a name, or is the password in its place, is not
// shown.
func (v whole) shownUser(user string) string {
	unfit := func(r rune) bool { return r <= ' ' || r >= 0x7f }
	if len(user) > maxShownUser || strings.ContainsFunc(user, unfit) || v.CheckAuth([]byte("default"), []byte(user)) {
		return "(not shown)"
	}
	return user
}
