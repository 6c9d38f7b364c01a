package redlock

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	mathrand "math/rand/v2"
	"strconv"
	"strings"
	"sync/atomic"

	"lockproxy/internal/slot"
)

// Names is how a proxy names what is in Redis, its requests, and itself. Safe for concurrent use.
type Names struct {
	Prefix  string // of all keys
	Fences  string // what the keys of the slots' fences begin with
	ID      string // of this proxy, in the queues
	ids     requestIDs
	keepers atomic.Uint64 // ids so far
}

// NewNames are the names of a proxy whose keys all begin with prefix.
func NewNames(prefix string) *Names {
	n := &Names{Prefix: prefix, Fences: prefix + "fence:{", ID: newProxyID()}
	n.ids.start()
	return n
}

// Place is where a lock lives.
type Place struct {
	Key  string // of its hash, and the name of its channel
	Slot int
}

// Place maps the name of a lock to its keys. The name stands in braces, so that all keys of the
// lock lie in one slot, unless it has a hash tag of its own: then the lock lies
// beside the data of that tag. The names a and {a} are therefore one lock.
func (n *Names) Place(name string) Place {
	var room [64]byte
	key := n.AppendKey(room[:0], name)
	return Place{string(key), slot.Of(key)}
}

// AppendKey appends the key of the lock of that name.
func (n *Names) AppendKey(dst []byte, name string) []byte {
	dst = append(dst, n.Prefix...)
	if hasTag(name) {
		return append(dst, name...)
	}
	return append(append(append(dst, '{'), name...), '}')
}

// KeySize is how long that key is.
func (n *Names) KeySize(name string) int {
	if hasTag(name) {
		return len(n.Prefix) + len(name)
	}
	return len(n.Prefix) + len(name) + 2
}

// LockOf is the name of the lock whose key it is. braced: the braces are ours.
func (n *Names) LockOf(key string) (name string, braced, ok bool) {
	rest, ok := strings.CutPrefix(key, n.Prefix)
	if !ok {
		return "", false, false
	}
	if inner, ok := strings.CutPrefix(rest, "{"); ok {
		if inner, ok = strings.CutSuffix(inner, "}"); ok && inner != "" && !hasTag(inner) {
			return inner, true, true
		}
	}
	return rest, false, hasTag(rest) // else a fence, or somebody else's
}

// KeeperChannel is where this proxy is told of the holds that it keeps alive.
func (n *Names) KeeperChannel() string { return n.Prefix + "keeper:" + n.ID }

// NewID is an id for a, with what its client calls it.
func (n *Names) NewID(a *Acquire) string {
	id := n.ids.next()
	if a.Named == "" {
		return string(id[:])
	}
	return string(id[:]) + "," + NameOf(a.Token, a.Named)[:8]
}

// NewRequest is the id of a new request that its client has no name for.
func (n *Names) NewRequest() [IDBytes]byte { return n.ids.next() }

// NameOf stands for what a client calls a request of a token's: letters and digits, as in ids.
func NameOf(token, named string) string {
	sum := sha256.Sum256([]byte(token + "\x00" + named))
	return hex.EncodeToString(sum[:8])
}

// NewKeeper is an id under which this proxy keeps one hold alive.
func (n *Names) NewKeeper() string {
	return n.ID + ":" + strconv.FormatUint(n.keepers.Add(1), 36)
}

// hasTag says that name has a hash tag (Redis Cluster specification). That of fence:{tag}
// does not count: its key would be the one where the fences of a slot are.
func hasTag(name string) bool {
	open := strings.IndexByte(name, '{')
	if open < 0 {
		return false
	}
	size := strings.IndexByte(name[open+1:], '}')
	return size > 0 && (name[:open] != "fence:" || open+size+2 < len(name))
}

// NewToken makes a token that nobody can guess: 130 random bits, 26 letters and digits.
func NewToken() string { return rand.Text() }

// newProxyID makes the id of a proxy: 80 random bits. It need not be secret, only its own.
func newProxyID() string {
	var b [IDBytes]byte
	bits := mathrand.Uint64()
	for i := range b {
		if i == len(b)/2 {
			bits = mathrand.Uint64()
		}
		b[i] = "abcdefghijklmnopqrstuvwxyz234567"[bits&31]
		bits >>= 5
	}
	return string(b[:])
}

// OwnerBytes is how long the owner of a hold is.
const OwnerBytes = 1 + 2*16

// OwnerOf is what stands for a token in Redis: "#" and, as hex digits, the first half of its SHA-256. Whoever
// reads keys, MONITOR or the slow log there learns nothing that frees a lock.
func OwnerOf(token string) string { return string(AppendOwner(nil, token)) }

func AppendOwner(dst []byte, token string) []byte {
	sum := sha256.Sum256([]byte(token))
	return hex.AppendEncode(append(dst, '#'), sum[:OwnerBytes/2])
}

// digestOf stands for the owner of a hold where people see it: the first 8 hex digits of the SHA-256 of the
// token. A version of this program that knew no owners left the token itself there.
func digestOf(owner string) string {
	if len(owner) == OwnerBytes && owner[0] == '#' {
		return owner[1:9]
	}
	return OwnerOf(owner)[1:9]
}
