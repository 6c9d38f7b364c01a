package commands

import (
	"cmp"

	"lockproxy/cluster"
)

// Server is what commands ask of the proxy as a whole. Its methods do not
// block and are safe for concurrent use.
type Server interface {
	Statistics
	// AuthRequired says that a client is served nothing before AUTH.
	AuthRequired() bool
	// UsersOnly says that clients authenticate as users of the upstream, the default user included.
	UsersOnly() bool
	// CheckAuth says whether password is the one of user. AUTH with one argument
	// means the user "default".
	CheckAuth(user, password []byte) bool
	// LoginEnded notes how an attempt of that client to authenticate ended: refusal nil means well. upstream
	// says that the upstream has judged it.
	LoginEnded(client *Client, user string, upstream bool, refusal []byte)
	// Config holds the settings.
	Config() Config
	// Scripts are the sources of the scripts that clients used.
	Scripts() *Scripts
	// Upstream is what all masters are.
	Upstream() cluster.Server
	// Clustered says that the upstream is a Redis Cluster, whatever its size.
	Clustered() bool
	// Facts are what INFO tells of the proxy as it is now, its counters since CONFIG RESETSTAT. They may be
	// costly.
	Facts() Facts
	Frontend
}

// Config is what CONFIG GET and CONFIG SET work on. Safe for concurrent use.
type Config interface {
	// Get returns names and values of the settings whose name matches glob.
	Get(glob string) [][2]string
	// Has says whether there is a setting of that name, in lower case.
	Has(name string) bool
	// Check says what SetAll would say, and changes nothing.
	Check(pairs [][2]string) error
	// SetAll changes settings, all of them or none. Its error is the text of the
	// error reply from "ERR" on.
	SetAll(pairs [][2]string) error
}

// oldestVersion is told when the upstream does not tell its version, as the one
// in memory: that of the first Redis with HELLO, so that clients ask for nothing
// that may be missing.
const oldestVersion = "6.0.0"

// ToldVersion is the version of Redis. It is never empty: clients choose by it what they use.
func ToldVersion(s Server) string {
	return cmp.Or(s.Upstream().Version, oldestVersion)
}

// ToldProduct is the product and its own version. Neither is ever empty.
func ToldProduct(s Server) (product, version string) {
	is := s.Upstream()
	return cmp.Or(is.Product, "redis"), cmp.Or(is.Release, ToldVersion(s))
}
