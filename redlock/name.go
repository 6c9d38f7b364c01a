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

// naming is how a proxy names what is in Redis, its requests, and itself. Safe for concurrent use.
type naming struct {
	prefix  string // of all keys
	fences  string // what the keys of the slots' fences begin with
	id      string // of this proxy, in the queues
	ids     requestIDs
	keepers atomic.Uint64 // ids so far
}

func newNaming(prefix string) *naming {
	n := &naming{prefix: prefix, fences: prefix + "fence:{", id: newID()}
	n.ids.start()
	return n
}

// place is where a lock lives.
type place struct {
	key  string // of its hash, and the name of its channel
	slot int
}

// place maps the name of a lock to its keys. The name stands in braces, so that all keys of the
// lock lie in one slot, unless it has a hash tag of its own: then the lock lies
// beside the data of that tag. The names a and {a} are therefore one lock.
func (n *naming) place(name string) place {
	key := n.prefix + name
	if !hasTag(name) {
		key = n.prefix + "{" + name + "}"
	}
	return place{key, slot.Of([]byte(key))}
}

// lockOf is the name of the lock whose key it is. braced: the braces are ours.
func (n *naming) lockOf(key string) (name string, braced, ok bool) {
	rest, ok := strings.CutPrefix(key, n.prefix)
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

// keeperChannel is where this proxy is told of the holds that it keeps alive.
func (n *naming) keeperChannel() string { return n.prefix + "keeper:" + n.id }

// newID is an id for a, with what its client calls it.
func (n *naming) newID(a *Acquire) string {
	id := n.ids.next()
	if a.Named == "" {
		return string(id[:])
	}
	return string(id[:]) + "," + nameOf(a.Token, a.Named)[:8]
}

// nameOf stands for what a client calls a request of a token's: letters and digits, as in ids.
func nameOf(token, named string) string {
	sum := sha256.Sum256([]byte(token + "\x00" + named))
	return hex.EncodeToString(sum[:8])
}

// newKeeper is an id under which this proxy keeps one hold alive.
func (n *naming) newKeeper() string {
	return n.id + ":" + strconv.FormatUint(n.keepers.Add(1), 36)
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

// newID makes the id of a proxy: 80 random bits. It need not be secret, only its own.
func newID() string {
	var b [idBytes]byte
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

// ownerBytes is how long the owner of a hold is.
const ownerBytes = 1 + 2*16

// OwnerOf is what stands for a token in Redis: "#" and, as hex digits, the first half of its SHA-256. Whoever
// reads keys, MONITOR or the slow log there learns nothing that frees a lock.
func OwnerOf(token string) string { return string(appendOwner(nil, token)) }

func appendOwner(dst []byte, token string) []byte {
	sum := sha256.Sum256([]byte(token))
	return hex.AppendEncode(append(dst, '#'), sum[:ownerBytes/2])
}

// appendOwnerOf appends OwnerOf(token) as a bulk string. It allocates nothing but room in req.
func appendOwnerOf(req []byte, token string) []byte {
	req = append(req, "$33\r\n"...)
	return append(appendOwner(req, token), "\r\n"...)
}

// digestOf stands for the owner of a hold where people see it: the first 8 hex digits of the SHA-256 of the
// token. A version of this program that knew no owners left the token itself there.
func digestOf(owner string) string {
	if len(owner) == ownerBytes && owner[0] == '#' {
		return owner[1:9]
	}
	return OwnerOf(owner)[1:9]
}
