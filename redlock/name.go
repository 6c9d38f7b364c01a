package redlock

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"
	"sync/atomic"

	"lockproxy/internal/slot"
)

// Names makes the names of a proxy: of keys, of requests, and of the proxy itself. Safe for concurrent use.
type Names struct {
	Prefix  string // of all keys, but of those of locks that are Bare
	Fences  string // prefix of the keys of the slots' fences
	Bare    bool   // the key of a lock is its name
	ID      string // of this proxy, as queues name it
	ids     requestIDs
	keepers atomic.Uint64 // ids so far
}

// NewNames makes the names of a proxy whose keys all begin with prefix.
func NewNames(prefix string) *Names {
	n := &Names{Prefix: prefix, Fences: prefix + "fence:{", ID: newProxyID()}
	n.ids.startIDs()
	return n
}

// LockPlace is where a lock lives.
type LockPlace struct {
	Key  string // of the lock; also the name of its channel
	Slot int
}

// Place maps the name of a lock to its keys. The name is put in braces, so that all keys of the lock lie in
// one slot. A name that has a hash tag is left alone: that lock lies beside the data of its tag. Hence the
// names a and {a} are one lock.
func (n *Names) Place(name string) LockPlace {
	var buf [64]byte
	key := n.AppendKey(buf[:0], name)
	return LockPlace{string(key), slot.Of(key)}
}

// AppendKey appends the key of the lock of that name.
func (n *Names) AppendKey(dst []byte, name string) []byte {
	if n.Bare {
		return append(dst, name...)
	}
	dst = append(dst, n.Prefix...)
	if hasTag(name) {
		return append(dst, name...)
	}
	return append(append(append(dst, '{'), name...), '}')
}

// KeySize is the length of that key.
func (n *Names) KeySize(name string) int {
	if n.Bare {
		return len(name)
	}
	if hasTag(name) {
		return len(n.Prefix) + len(name)
	}
	return len(n.Prefix) + len(name) + 2
}

// LockOf returns the name of the lock that key belongs to.
func (n *Names) LockOf(key string) (name string, ok bool) {
	rest, ok := strings.CutPrefix(key, n.Prefix)
	if !ok {
		return "", false
	}
	if inner, ok := strings.CutPrefix(rest, "{"); ok {
		if inner, ok = strings.CutSuffix(inner, "}"); ok && inner != "" && !hasTag(inner) {
			return inner, true
		}
	}
	return rest, hasTag(rest) // without a tag it is a fence, or a key of somebody else
}

// Unbraced is name without the braces that Place would add: a and {a} are one lock.
func Unbraced(name []byte) []byte {
	if n := len(name); n > 2 && name[0] == '{' && name[n-1] == '}' && !hasTag(string(name[1:n-1])) {
		return name[1 : n-1]
	}
	return name
}

// KeeperChannel is the channel on which this proxy hears of the holds that it keeps alive.
func (n *Names) KeeperChannel() string { return n.Prefix + "keeper:" + n.ID }

// NewID makes the id of a; it includes the client's own name for the request, if there is one.
func (n *Names) NewID(a *Acquire) string {
	id := n.ids.nextID()
	if a.Named == "" {
		return string(id[:])
	}
	return string(id[:]) + "," + NameOf(a.Token, a.Named)[:8]
}

// NewRequest makes the id of a request for which the client has no name.
func (n *Names) NewRequest() [IDBytes]byte { return n.ids.nextID() }

// NameOf turns the client's own name for a request of token into letters and digits, as ids have them.
func NameOf(token, named string) string {
	sum := sha256.Sum256([]byte(token + "\x00" + named))
	return hex.EncodeToString(sum[:8])
}

// NewKeeper makes an id under which this proxy keeps one hold alive.
func (n *Names) NewKeeper() string {
	return n.ID + ":" + strconv.FormatUint(n.keepers.Add(1), 36)
}

// hasTag says that name has a hash tag (Redis Cluster specification). The tag of fence:{tag} does not count:
// that key would be the one of a slot's fences.
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

// newProxyID makes the id of a proxy: 80 random bits. It is not secret; it only has to be unique.
func newProxyID() string {
	return strings.ToLower(rand.Text()[:IDBytes])
}

// OwnerBytes is the length of an owner.
const OwnerBytes = 1 + 2*16

// OwnerOf is what Redis keeps in place of a token: "#" and the first half of its SHA-256 in hex digits. Who
// reads keys, MONITOR or the slow log there learns nothing that frees a lock.
func OwnerOf(token string) string { return string(AppendOwner(nil, token)) }

// AppendOwner appends OwnerOf(token). It allocates nothing but room in dst, as long as a token is as short as
// most are.
func AppendOwner(dst []byte, token string) []byte {
	var space [64]byte
	sum := sha256.Sum256(append(space[:0], token...))
	return hex.AppendEncode(append(dst, '#'), sum[:OwnerBytes/2])
}

// Digest is what people see of a token.
func Digest(token string) string { return digestOf(OwnerOf(token)) }

// digestOf is what people see of an owner: the first 8 hex digits of the SHA-256 of the token. Early versions
// of lockproxy kept the token itself in place of an owner.
func digestOf(owner string) string {
	if len(owner) == OwnerBytes && owner[0] == '#' {
		return owner[1:9]
	}
	return OwnerOf(owner)[1:9]
}
