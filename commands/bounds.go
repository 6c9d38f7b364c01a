package commands

import (
	"strings"

	"lockproxy/internal/glob"
	"lockproxy/internal/resp"
)

const (
	// MaxChannel is how many bytes the name of a channel or a pattern may have.
	MaxChannel = 64 << 10
	// DearestPattern is the most that a pattern may cost a node for each byte of a name (glob.Price).
	DearestPattern = 256
	// maxBytes is how long a command may be that the proxy answers itself, unless it is Bulky.
	maxBytes = 1 << 20
)

// Excess is the refusal of args, a command of n bytes, if it is too long for the proxy to answer it itself,
// names a channel that is too long, or has a pattern that costs a node too much; otherwise nil. All ways of a
// command to a node ask it. Most commands are not looked at.
func (c *Command) Excess(args [][]byte, n int) []byte {
	if n <= MaxChannel && c.Globs == nil { // as nearly always: this much is inlined
		return nil
	}
	return excess(c, args, n)
}

// excess is Excess for a command that is looked at. The bound on the length is for what the proxy answers
// itself; a node has bounds of its own.
func excess(c *Command, args [][]byte, n int) []byte {
	if dear := dear(c, args); dear != nil || n <= maxBytes || c.Route != Local || c.Flags&Bulky != 0 {
		return dear
	}
	return resp.ErrorLine("ERR a command of %d bytes is too long: lockproxy answers '%s' itself, and "+
		"takes %d at most",
		n, strings.ReplaceAll(c.Name, "|", " "), maxBytes)
}

// dear is the refusal of a command that has a channel or a pattern which costs a node too much.
func dear(c *Command, args [][]byte) []byte {
	names := args[min(1, len(args)):]
	switch {
	case c.Globs != nil:
		names = c.Globs(args)
	case c.Flags&PubSub == 0:
		return nil
	// the other argument is the message, which may be long
	case c.Flags&Replicates != 0: // it publishes
		names = names[:min(1, len(names))]
	}
	for _, name := range names {
		if len(name) > MaxChannel {
			return resp.ErrorLine("ERR the name of a channel or a pattern has %d bytes at most through "+
				"lockproxy, this one has %d: a node compares each pattern with each name", MaxChannel,
				len(name))
		}
		if c.Globs == nil {
			continue
		}
		if price := glob.Price(name); price > DearestPattern {
			return resp.ErrorLine("ERR a pattern has %d bytes at most through lockproxy that a node may "+
				"have to compare with each byte of a name, this one has %d", DearestPattern, price)
		}
	}
	return nil
}

// AllGlobs is a Row.Globs: all arguments.
func AllGlobs(args [][]byte) [][]byte { return args[min(1, len(args)):] }

// GlobsBehind returns a Row.Globs: the arguments behind a word, which is not the first argument.
func GlobsBehind(word string) func(args [][]byte) [][]byte {
	return func(args [][]byte) (globs [][]byte) {
		for i := 2; i+1 < len(args); i++ {
			if resp.IsWord(args[i], word) {
				globs = append(globs, args[i+1])
			}
		}
		return globs
	}
}
