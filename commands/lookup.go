package commands

import (
	"bytes"

	"lockproxy/internal/resp"
)

// index finds commands by name without regard to case. Every command of every client is looked up here, so
// only four values of its name are hashed. Names of one bucket are compared one by one; there are a few
// hundred in all, so few share one.
type index [1 << indexBits][]*Command

const indexBits = 11

// Lookup is the command of that name in any mixture of cases, or nil.
func (t *Table) Lookup(name []byte) *Command {
	for _, c := range t.index[indexOf(name)] {
		if resp.IsWord(name, c.Name) {
			return c
		}
	}
	return nil
}

// Named is Lookup that knows subcommands too, by names such as "config|set".
func (t *Table) Named(name []byte) *Command {
	name, sub, isSub := bytes.Cut(name, []byte("|"))
	c := t.Lookup(name)
	if c != nil && isSub {
		return FindSub(c.Subs, sub)
	}
	return c
}

// indexOf tells nearly all names of Redis apart by their length and their
// first, middle and last bytes.
func indexOf(name []byte) uint32 {
	n := len(name)
	if n == 0 {
		return 0
	}
	h := uint32(n) | uint32(name[0]|0x20)<<8 | uint32(name[n/2]|0x20)<<16 | uint32(name[n-1]|0x20)<<24
	return h * 0x9e3779b1 >> (32 - indexBits) // Knuth's multiplicative hashing
}

// FindSub looks up the name of a subcommand without regard to case. The name is copied to the stack, so that
// a lookup allocates nothing.
func FindSub(m map[string]*Command, name []byte) *Command {
	var space [256]byte
	if len(name) > len(space) { // no subcommand has such a name
		return nil
	}
	for i, b := range name {
		if b-'A' < 26 { // below 'A' it wraps
			b |= 0x20
		}
		space[i] = b
	}
	return m[string(space[:len(name)])]
}
