// Package redlock keeps locks in Redis: one key holds the whole state of a lock, a string
// while one writer has it and nobody waits, else a hash. One script decides each
// transition, and a queue in the hash makes waiting fair across all proxies.
//
//	Acquire --> acquire.lua --> granted --> Keep: keep.lua, over and over --> lost
//	                       \--> queued: subscribe, sleep --> woken, or timer --> acquire.lua ...
//	Release --> release.lua --> the next waiter is granted or woken
//
// A Locker has what all locks need: waiting, keeping alive, listing, counting. Where they are kept is the
// affair of its engine, which takes typed requests and gives typed answers: single asks the scripts of one
// Redis or a cluster, through the interface Upstream; quorum asks those of several independent masters,
// through the interface Node, and puts their answers together: RedLock.
package redlock

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

	keys int // how many it takes: the lock, or the lock and the fence of its slot
}

//go:embed *.lua
var sources embed.FS

// The scripts, a line each.
var (
	acquireScript = load("acquire", 2)
	claimScript   = load("claim", 2)
	releaseScript = load("release", 2)
	renewScript   = load("renew", 1)
	cancelScript  = load("cancel", 2)
	keepScript    = load("keep", 0) // as many locks as there are, of one slot
	confirmScript = load("confirm", 1)
	detachScript  = load("detach", 2)
	breakScript   = load("break", 2)
	inspectScript = load("inspect", 1)
	settleScript  = load("settle", 2)
)

// scripts are those that load has read.
var scripts []Script

// Scripts are all scripts, so that nodes that lost them can be given them again.
func Scripts() []Script { return slices.Clone(scripts) }

// load reads a script, with the parts that it includes put in their places and
// without comments, which Redis would keep in memory.
func load(name string, keys int) Script {
	source := include(name + ".lua")
	sum := sha1.Sum([]byte(source))
	script := Script{Name: name, SHA: hex.EncodeToString(sum[:]), Source: source, keys: keys}
	scripts = append(scripts, script)
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
		part, ok := strings.CutPrefix(code, "--#include ")
		switch {
		case ok:
			b.WriteString(include(part))
		case code != "" && !strings.HasPrefix(code, "--"):
			b.WriteString(code + "\n")
		}
	}
	return b.String()
}
