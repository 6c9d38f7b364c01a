package lock

import (
	"slices"
	"sync"

	"lockproxy/commands"
	"lockproxy/redlock"
)

// semlockVerb is
//
//	SEMLOCK key PERMITS n [what LOCK takes, but REENTRANT and BREAK]
//
// Reply: as of LOCK; Null: no permit is free; -PERMITS: others hold or wait for permits of it with another n.
func semlockVerb(l *Lockers, b *Busiest) *commands.Command {
	verb := lockVerb(l, b, "semlock", redlock.Permit,
		"Takes one of a number of permits, waiting for it if told to.")
	verb.Docs.Since, verb.Docs.Complexity = "0.1.0", "O(1); O(N) if a lease has ended, N being the permits"
	verb.Arity = -4
	others := slices.DeleteFunc(verb.Docs.Arguments, func(a commands.Argument) bool {
		return a.Token == "REENTRANT" || a.Token == "BREAK"
	})
	permits := commands.Argument{Name: "count", Type: "integer", Token: "PERMITS"}
	verb.Docs.Arguments = slices.Insert(others, 1, permits)
	syntax := newSyntax(verb)
	spare := &sync.Pool{New: func() any { return new(acquisition) }}
	verb.Run = func(c *commands.Call) { lock(c, l, b, syntax, redlock.Permit, spare) }
	return verb
}
