package lock

import (
	"crypto/rand"

	"lockproxy/commands"
)

// The rights that the lock verbs need. SET with GET reads and writes its key.

// key is a key of Redis, as keyOf gives it.
func writeRight(key string) commands.Right { return commands.NewRight("SET", key, "*", "GET") }

// A plain lock is a string and any other a hash, so both are read.
func readRights(key string) []commands.Right {
	return []commands.Right{commands.NewRight("GET", key), commands.NewRight("HGETALL", key)}
}

// breakRights are what it takes to break a lock, beside the right to write it: that removes its key, and
// takes from another client what it holds.
func breakRights(key string) []commands.Right {
	return []commands.Right{commands.NewRight("DEL", key), commands.NewRight("CLIENT", "KILL", "ID", "1")}
}

// allLocksRights is the right to list all keys and to read every key that begins with the prefix of locks. A
// rule for one key that nobody can guess stands for all of them: who may read that one may read every lock.
// Each call has another key, so a rule cannot be made to fit it.
func allLocksRights(l *Lockers) func(args [][]byte) []commands.Right {
	return func([][]byte) []commands.Right {
		var all []commands.Right
		for _, engine := range l.engines() {
			all = append(all, readRights(engine.Key(rand.Text()))...)
		}
		return append(all, commands.NewRight("KEYS", "*"))
	}
}

// keyOf is the key of a lock. Rights are about it, and not about the name.
func (l *Lockers) keyOf(name []byte) string { return l.engineOf(name).Key(string(name)) }
