package commands

import (
	"fmt"
	"slices"

	"lockproxy/internal/resp"
)

// SlowEntry is one entry of the slow log.
type SlowEntry struct {
	ID   int64 // rises within one log
	Time int64 // when it ended: Unix seconds
	Took int64 // µs
	Args [][]byte
	Addr string // of the client
	Name string // of the client
}

// SlowLog is the proxy's own part in the slow log of the upstream. Safe for
// concurrent use.
type SlowLog interface {
	// Own are the entries of commands that the proxy answered itself, the newest first.
	Own() []SlowEntry
	// Whose returns a function that finds the client for an entry of a node's slow log: the one whose
	// command the proxy had sent there. Call it for the newest entry first.
	Whose() func(e SlowEntry) (addr, name string, ok bool)
	// Reset forgets the own entries.
	Reset()
	// Limits notes what CONFIG SET or GET said about the upstream's parameters slowlog-log-slower-than and
	// slowlog-max-len.
	Limits(name, value string)
}

// Slow log entries hold only the beginning of long commands (slowlog.c).
const (
	slowArgs = 32
	slowArg  = 128
)

// NewSlowEntry makes an entry of a command in Redis's form. It does not alias args. Passwords
// and tokens are not shown.
func NewSlowEntry(c *Command, args [][]byte) SlowEntry {
	var e SlowEntry
	shown := args
	if len(args) > slowArgs {
		shown = args[:slowArgs-1]
	}
	secret := c.Secrets(shown)
	for i, arg := range shown {
		switch {
		case secret != nil && secret[i]:
			e.Args = append(e.Args, Redacted)
		case len(arg) > slowArg:
			e.Args = append(e.Args, resp.Shortened(arg, slowArg))
		default:
			e.Args = append(e.Args, slices.Clone(arg))
		}
	}
	if more := len(args) - len(shown); more > 0 {
		e.Args = append(e.Args, moreArguments(more))
	}
	return e
}

// moreArguments stands in place of n arguments that are not shown.
func moreArguments(n int) []byte { return fmt.Appendf(nil, "... (%d more arguments)", n) }
