package commands

import (
	"bytes"
	"regexp"
	"unsafe"

	"lockproxy/internal/slot"
)

// A script without keys may run at any node. If it names keys by itself, which Redis advises against, it
// must run at their node. This file guesses those keys from the script's source; a wrong guess does no harm.
//
// A script that names no key runs at the master that its SHA1 leads to, for EVAL and EVALSHA alike. So only
// one master compiles and keeps it, and if it keeps a node busy, that is the same node for all clients.

// Home is the slot of the first key that the script of c, a command without keys, names in its source, or of
// its SHA1; AnySlot if c runs no script, or a function of which nothing is known.
func (c *Command) Home(args [][]byte, t *Table, s *Scripts) int {
	if c.Flags&Scripted == 0 || len(args) < 3 {
		return AnySlot
	}
	switch c.Script {
	case ScriptSource:
		return s.homeNamed(s.shaOf(args[1]), args[1], t)
	case ScriptSHA:
		name, ok := shaNamed(args[1])
		if !ok {
			return AnySlot
		}
		return s.homeNamed(name, nil, t)
	}
	if home, known := s.homes.Get(string(args[1][:min(len(args[1]), maxNaming+1)])); known {
		return home
	}
	return AnySlot
}

// homeNamed is Home of a script by its SHA1. source is nil if it is to be looked up. It is remembered only if
// the source is known: without it the guess may get better.
func (s *Scripts) homeNamed(name sha, source []byte, t *Table) int {
	home, known := s.named.Get(string(name[:]))
	if known {
		return home
	}
	if source == nil {
		source, _ = s.Get(name[:])
	}
	if home = t.namedKey(source); home == AnySlot {
		home = slot.Of(name[:])
	}
	if len(source) > 0 {
		s.named.Add(string(name[:]), home)
	}
	return home
}

// shaOf is what EVALSHA calls the script. A source that is not remembered is hashed each time.
func (s *Scripts) shaOf(source []byte) sha {
	if len(source) > MaxSource {
		return digest(source)
	}
	key, known := s.recent.Get(unsafe.String(unsafe.SliceData(source), len(source))) // does not keep it
	if !known {
		key = digest(source)
	}
	return key
}

const (
	// a string of Lua without escapes, as names of commands and keys are written
	text      = `(?:'[^'\\\n]*'|"[^"\\\n]*")`
	maxGuess  = 64 << 10 // bytes of a source that are looked at
	maxHomes  = 4096     // scripts, and functions, whose slot is remembered
	maxNaming = 128      // bytes of a function's name
)

var (
	callOfLua  = []byte("call")
	argsOfLua  = regexp.MustCompile(`^\s*\(\s*` + text + `(?:\s*,\s*` + text + `)*`)
	textOfLua  = regexp.MustCompile(text)
	registers  = []byte("register_function")
	namedInLua = regexp.MustCompile(`function_name\s*=\s*(` + text + `)`)
)

// nextCall returns the texts that the next call of Redis in source begins with, and what follows on its name.
// There is none if args is empty. It is called on a loop, where looking for the whole call by a pattern takes
// five times as long.
func nextCall(source []byte) (args [][]byte, rest []byte) {
	for {
		before, rest, ok := bytes.Cut(source, callOfLua)
		if !ok {
			return nil, nil
		}
		before = bytes.TrimSuffix(before, []byte("p"))
		if bytes.HasSuffix(before, []byte("redis.")) || bytes.HasSuffix(before, []byte("server.")) {
			for _, word := range textOfLua.FindAll(argsOfLua.Find(rest), -1) {
				args = append(args, word[1:len(word)-1])
			}
			if len(args) > 0 {
				return args, rest
			}
		}
		source = rest
	}
}

// namedKey is the slot of the first key that is written out in a call of Redis in source, or AnySlot. A call
// of a command that is not in the table names none.
func (t *Table) namedKey(source []byte) int {
	source = source[:min(len(source), maxGuess)]
	for {
		args, rest := nextCall(source)
		if len(args) == 0 {
			return AnySlot
		}
		cmd, _ := t.Resolve(args)
		for _, i := range cmd.KeyIndexes(args) {
			return slot.Of(args[i])
		}
		source = rest
	}
}

// AddLibrary remembers, by function, the slots of the keys that a library of functions names. Of a function
// that names none itself, it is the first key of the whole library: its functions usually share helpers.
func (s *Scripts) AddLibrary(source []byte, t *Table) {
	source = source[:min(len(source), maxGuess)]
	whole := t.namedKey(source)
	for {
		_, rest, ok := bytes.Cut(source, registers)
		if !ok {
			return
		}
		own, _, _ := bytes.Cut(rest, registers)
		source = rest
		name := textOfLua.Find(own)
		if found := namedInLua.FindSubmatch(own); found != nil {
			name = found[1]
		}
		if len(name) < 3 || len(name) > maxNaming {
			continue
		}
		home := t.namedKey(own)
		if home == AnySlot {
			home = whole
		}
		s.homes.Add(string(name[1:len(name)-1]), home)
	}
}
