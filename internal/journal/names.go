package journal

import (
	"crypto/sha256"
	"encoding/hex"
)

// NameStyle says how lines show the names of locks.
type NameStyle uint8

// The ways. A name may tell whom a lock is about, so it is a digest unless somebody asks for more.
const (
	NamesHashed NameStyle = iota // the first 8 hex digits of its SHA-256
	NamesHidden                  // lines leave it out
	NamesWhole
)

// mostShown is up to where a name is shown.
const mostShown = 128

// Lock appends the name of a lock to the attributes of a line.
func (n NameStyle) Lock(attrs []any, name string) []any {
	switch n {
	case NamesHidden:
		return attrs
	case NamesHashed:
		sum := sha256.Sum256([]byte(name))
		name = hex.EncodeToString(sum[:4])
	}
	return append(attrs, "lock", name[:min(len(name), mostShown)])
}
