package commands

import (
	"cmp"
	"strings"
	"time"

	"lockproxy/commands/holds"
	"lockproxy/redlock"
)

// Client is the state of one client connection as commands see it. Only the loop that owns the connection
// touches it. Keepalives.Break must be called when the connection ends.
type Client struct {
	ID            int64
	Addr          string // remote address; of a unix socket its path and ":0", as in Redis
	LocalAddr     string
	Unix          bool // connected over a unix socket
	Created       time.Time
	Proto         int    // 2 or 3
	DB            int    // SELECT
	ReadOnly      int8   // 1 after READONLY, -1 after READWRITE
	Authenticated bool   // the password was given, or none is needed
	Name          string // CLIENT SETNAME
	Library              // CLIENT SETINFO
	NoEvict       bool
	NoTouch       bool
	Redirectable  bool             // it has said CLIENT CAPA redirect
	Blocked       bool             // it waits in a command that blocks, or for a lock
	User          string           // as whom it authenticated; "" is "default"
	Grants        holds.Grants     // tokens of the locks that it was granted
	Keepalives    holds.Keepalives // locks that are kept alive for as long as it lives
	Waits         holds.Waits      // for locks, while it goes on
	Monitoring    bool             // MONITOR
	Watching      bool             // LOCKCTL WATCH
	Transaction   Transaction
	Tracking      Tracking
	Topics        [3]int // how many it listens to, by pubsub.Kind

	holder *redlock.Client // what Holder returned last
}

// Library is the library of a client, as it says itself.
type Library struct{ LibName, LibVersion string }

// Reset makes it begin anew, as RESET does. Whatever is not named here does: the user, the database, the
// grants, the transaction.
func (c *Client) Reset(s Server, authenticated bool) {
	*c = Client{
		ID: c.ID, Addr: c.Addr, LocalAddr: c.LocalAddr, Unix: c.Unix, Created: c.Created,
		Proto: 2, Authenticated: authenticated,
		Library:      c.Library,
		Redirectable: c.Redirectable,
		// RESET of Redis 7.0 leaves this one as it is.
		NoEvict: c.NoEvict && !s.Upstream().AtLeast(7, 2),
	}
}

// Holder is the client as a holder of locks, with the name and the user that it has now. It is made anew only
// when one of these has changed: locks share it, and it is immutable.
func (c *Client) Holder() *redlock.Client {
	if h := c.holder; h == nil || h.Name != c.Name || h.User != c.UserName() {
		c.holder = &redlock.Client{Name: c.Name, Addr: c.Addr, User: c.UserName()}
	}
	return c.holder
}

// Host is where the client comes from: its address without the port. It is "" for an address without a colon.
func (c *Client) Host() string { return c.Addr[:max(strings.LastIndexByte(c.Addr, ':'), 0)] }

// Subscribed says that the client listens to something.
func (c *Client) Subscribed() bool { return c.Topics != [3]int{} }

// DefaultUser is whom AUTH with a password alone means.
const DefaultUser = "default"

// UserName is the user that the client has authenticated as.
func (c *Client) UserName() string { return cmp.Or(c.User, DefaultUser) }

// Authenticates says that args, a command, may make its client another user: it is AUTH or HELLO, and not
// certain to fail.
func Authenticates(c *Command, args [][]byte, s Server) bool {
	switch {
	case c.Flags&LogsIn == 0, !c.HasSecret(args):
		return false
	case c.Flags&SetsProtocol != 0:
		return true
	}
	// A password alone is an error where no password is needed.
	return len(args) == 3 || len(args) == 2 && s.AuthRequired()
}
