// Package scripts has the Lua scripts that decide all transitions of locks, each run by Redis as one step,
// the requests that run them, and what they reply.
//
//	Eval(names, &Release, name, 6) --> Call: arguments in their order (call.go) --> Redis
//	                                          ReadFreed(reply) (reply.go, state.go) <--/
//
// A script stands in NAME.lua: KEYS, ARGV, reply and effects on top, then what it does. What several scripts
// need are functions in parts/, which know their parameters and each other, and nothing of the script that
// includes them:
//
//	acquire.lua  --#include hold.lua     reads and writes a hold
//	             --#include queue.lua    who waits, in which order
//	             ...
//
// To know what Redis is sent, begin with acquire.lua, whose head says how a lock is kept: a string while one
// writer has it and nobody waits, else a hash. A plain LOCK ends after ten lines of it, and a plain UNLOCK
// after as many of release.lua. Then: state.lua (the numbers of a lock that is a hash), queue.lua (who
// waits), turn.lua (who is first), passon.lua (to whom a lock goes that was freed).
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
	Acquire = load("acquire", 2)
	Claim   = load("claim", 2)
	Release = load("release", 2)
	Renew   = load("renew", 1)
	Cancel  = load("cancel", 2)
	Keep    = load("keep", 0) // as many locks as there are, of one slot
	Confirm = load("confirm", 1)
	Detach  = load("detach", 2)
	Break   = load("break", 2)
	Inspect = load("inspect", 1)
	Settle  = load("settle", 2)
	Tidy    = load("tidy", 1)

	Draw     = load("draw", 1)
	Number   = load("number", 1)
	Answered = load("answered", 1)
)

// Alone is a script of the lock and the fence of its slot that is given the lock alone, because a slot that
// moves has the two at different nodes.
func Alone(s Script) *Script {
	s.Keys = 1
	return &s
}

// loaded are those that load has read.
var loaded []Script

// All are all scripts, so that nodes that lost them can be given them again.
func All() []Script { return slices.Clone(loaded) }

// load reads a script, with the parts that it includes put in their places and
// without comments, which Redis would keep in memory.
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
