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

// newID makes the id of a request or of a proxy: 80 random bits. It need not be
// secret, only its own.
func newID() string {
	b := idBytes()
	return string(b[:])
}

func idBytes() (b [16]byte) {
	bits := mathrand.Uint64()
	for i := range b {
		if i == len(b)/2 {
			bits = mathrand.Uint64()
		}
		b[i] = "abcdefghijklmnopqrstuvwxyz234567"[bits&31]
		bits >>= 5
	}
	return b
}

// Digest stands for a token where it must not be shown: 8 hex digits of its SHA-256.
func Digest(token []byte) string {
	sum := sha256.Sum256(token)
	return hex.EncodeToString(sum[:4])
}
