// Package scripts has the Lua scripts that decide all transitions of locks, the requests that run them, and
// their replies. Redis runs each script as one step.
//
//	Eval(names, &Release, name, 6) --> Call: arguments in their order (call.go) --> Redis
//	                                          ReadFreed(reply) (reply.go, state.go) <--/
//
// A script is a file NAME.lua, with KEYS, ARGV, reply and effects on top. Functions that several scripts
// need are in parts/. They know their parameters and each other, and nothing of the script that includes
// them:
//
//	acquire.lua  --#include hold.lua     reads and writes a hold
//	             --#include queue.lua    the queue of a lock
//	             ...
//
// Begin reading at acquire.lua. Its head says how a lock is kept: as a string while one writer has it and
// nobody waits, otherwise as a hash. A plain LOCK ends after ten lines of it, and a plain UNLOCK is free.lua,
// all of it. Then: state.lua (the numbers of a lock that is a hash), queue.lua (who waits),
// turn.lua (who is first), passon.lua (who gets a lock that was freed).
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

// The scripts, a line each.
var (
	Acquire  = load("acquire", 2)
	Claim    = load("claim", 2)
	Release  = load("release", 2)
	Free     = load("free", 1)
	Renew    = load("renew", 1)
	Cancel   = load("cancel", 2)
	Keep     = load("keep", 0) // as many locks as there are, of one slot
	Detach   = load("detach", 2)
	Break    = load("break", 2)
	Inspect  = load("inspect", 1)
	Guard    = load("guard", 1) // and the keys of the command
	Mlock    = load("mlock", 0) // as Keep, and the fence of the slot
	Settle   = load("settle", 2)
	Tidy     = load("tidy", 1)
	Answered = load("answered", 1)

	// Locks in the form of other libraries.
	CompatTake    = load("compattake", 2)
	CompatRelease = load("compatrelease", 1)
	CompatRenew   = load("compatrenew", 0) // as many locks as there are, of one slot
	CompatLook    = load("compatlook", 1)
	CompatBreak   = load("compatbreak", 1)
)

// Alone is a script that has two keys, the lock and the fence of its slot, for calls with the lock as its
// only key: while a slot moves, the two may be at different nodes.
func Alone(s Script) *Script {
	s.Keys = 1
	return &s
}

// loaded are those that load has read.
var loaded []Script

// All are all scripts, to load them at nodes that have lost them.
func All() []Script { return slices.Clone(loaded) }

// load reads a script. Included parts are inserted, and comments left out, because Redis would keep them in
// memory.
func load(name string, keys int) Script {
	source := include(name + ".lua")
	sum := sha1.Sum([]byte(source))
	script := Script{Name: name, SHA: hex.EncodeToString(sum[:]), Source: source, Keys: keys}
	loaded = append(loaded, script)
	return script
}

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
