package commands

import (
	"cmp"
	"strings"

	"lockproxy/cluster"
)

// Server is what commands ask of the proxy as a whole. Its methods do not
// block and are safe for concurrent use.
type Server interface {
	// OwnStats counts what the proxy does by itself, as servers count what they do. INFO shows the sum.
	OwnStats() OwnStats
	// AuthRequired says that a client is served nothing before AUTH.
	AuthRequired() bool
	// UsersOnly says that clients authenticate as users of the upstream, the default user included.
	UsersOnly() bool
	// CheckAuth says whether password is the one of user. AUTH with one argument
	// means the user "default".
	CheckAuth(user, password []byte) bool
	// LoginEnded notes how an attempt of that client to authenticate ended; refusal nil means that it
	// succeeded. upstream says that the upstream checked the password.
	LoginEnded(client *Client, user string, upstream bool, refusal []byte)
	// ConfigSet notes that a client has changed settings, of the proxy or of the servers.
	ConfigSet(client *Client, pairs [][2]string)
	// Config holds the settings.
	Config() Config
	// Scripts are the sources of the scripts that clients used.
	Scripts() *Scripts
	// Upstream is what all masters are.
	Upstream() cluster.Server
	// Login is whom the proxy itself is at the upstream.
	Login() *cluster.Login
	// Clustered says that the upstream is a Redis Cluster, whatever its size.
	Clustered() bool
	// Facts are what INFO tells of the proxy now, with counters since CONFIG RESETSTAT. Collecting them may
	// be costly.
	Facts() Facts
	Frontend
}

// SecretSetting says that the setting of that name, of the proxy or of the servers, holds a password. What
// begins with master, as masterauth, is hidden although not all of it is secret: rather too much than too
// little.
func SecretSetting(name string) bool {
	name = strings.ToLower(name)
	return strings.Contains(name, "pass") || strings.HasPrefix(name, "master")
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

// oldestVersion is given to clients if the upstream, like the one in memory, does not tell its version. It
// is the first Redis with HELLO, so that clients use nothing that may be missing.
const oldestVersion = "6.0.0"

// ToldVersion is the version of Redis that clients are told. It is never empty: they choose by it what they
// use.
func ToldVersion(s Server) string {
	return cmp.Or(s.Upstream().Version, oldestVersion)
}

// ToldProduct is the product that clients are told, and its own version. Neither is ever empty.
func ToldProduct(s Server) (product, version string) {
	is := s.Upstream()
	if is.AsRedis {
		return "redis", ToldVersion(s)
	}
	return cmp.Or(is.Product, "redis"), cmp.Or(is.Release, ToldVersion(s))
}
