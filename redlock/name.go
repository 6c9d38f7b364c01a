package redlock

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	mathrand "math/rand/v2"
	"strings"

	"lockproxy/internal/slot"
)

// place is where a lock lives.
type place struct {
	key  string // of its hash, and the name of its channel
	slot int
}

// place maps the name of a lock to its keys. The name stands in braces, so that all keys of the
// lock lie in one slot, unless it has a hash tag of its own: then the lock lies
// beside the data of that tag. The names a and {a} are therefore one lock.
func (l *Locker) place(name string) place {
	key := l.o.Prefix + name
	if !hasTag(name) {
		key = l.o.Prefix + "{" + name + "}"
	}
	n := slot.Of([]byte(key))
	return place{key, n}
}

// Key is the key of the lock of that name.
func (l *Locker) Key(name string) string { return l.place(name).key }

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
