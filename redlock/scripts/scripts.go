// Package scripts has the Lua scripts that decide all transitions of locks, the requests that run them, and
// their replies. Redis runs each script as one step.
//
//	PlainCall(...) --> Call: keys, arguments in their order --> Redis
//	                                 ReadAcquire(reply) <---/
//
// A script is a file NAME.lua, with KEYS, ARGV, reply and effects on top. What Go has to do with it is in one
// file: release.go has release.lua and those that free locks as it does. Functions that several scripts
// need are in parts/. They know their parameters and each other, and nothing of the script that includes
// them:
//
//	acquire.lua  --#include hold.lua     reads and writes a hold
//	             --#include queue.lua    the queue of a lock
//	             ...
//
// Begin reading at acquire.lua. A lock is kept as docs/house.md says: as a string while one writer has it and
// nobody waits, otherwise as a hash. A plain LOCK ends after ten lines of it, a plain UNLOCK after three of
// release.lua. Then: state.lua (the numbers of a lock that is a hash), queue.lua (who waits),
// turn.lua (who is first), passon.lua (who gets a lock that was freed).
//
// The nouns: a Script is the source, once for the process; a Call is one request that runs it, and belongs to
// whoever made it. What the scripts call a token is an owner (redlock.OwnerOf): the client's own one never
// reaches Redis. Times in arguments and replies are in ms, those of clocks and fences in µs.
package scripts

import (
	"crypto/sha1"
	"embed"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
)

// Script is one Lua script. KEYS, ARGV, reply and effects stand on top of its source.
type Script struct {
	Name   string
	SHA    string // SHA1 of Source, 40 hex digits, as EVALSHA takes it
	Source string

	Keys int // how many it takes: the lock, or the lock and the fence of its slot
}

//go:embed *.lua parts/*.lua
var sources embed.FS

// loaded are those that loadScript has read. Only the variables of this package add to it, before main
// begins.
var loaded []Script

// All are all scripts, to load them at nodes that have lost them.
func All() []Script { return slices.Clone(loaded) }

// loadScript reads a script. Included parts are inserted, and comments left out, because Redis would keep
// them in memory.
func loadScript(name string, keys int) Script {
	source := include(name + ".lua")
	sum := sha1.Sum([]byte(source))
	script := Script{Name: name, SHA: hex.EncodeToString(sum[:]), Source: source, Keys: keys}
	loaded = append(loaded, script)
	return script
}

// include returns a file without its comments and blank lines, since each byte is kept by every node. A
// comment behind code stays. A part that is included twice is there twice.
func include(file string) string {
	text, err := sources.ReadFile(file)
	if err != nil {
		panic(fmt.Sprintf("redlock: %v", err)) // the file is part of the program
	}
	var b strings.Builder
	for line := range strings.Lines(string(text)) {
		code := strings.TrimSpace(line)
		part, ok := strings.CutPrefix(code, "--#include ") // without its folder
		switch {
		case ok:
			b.WriteString(include("parts/" + part))
		case code != "" && !strings.HasPrefix(code, "--"):
			b.WriteString(code + "\n")
		}
	}
	return b.String()
}
