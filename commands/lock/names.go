package lock

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"lockproxy/commands"
	"lockproxy/commands/holds"
	"lockproxy/internal/resp"
	"lockproxy/redlock"
	"lockproxy/redlock/locks"
)

// This file is what the verbs for several locks have in common: MLOCK, MUNLOCK and MRENEW.
//
//	VERB numkeys key [key ...] rest

// mostNames bounds how many locks one verb names.
const mostNames = 64

// behindNames is where the rest begins; 0: the number of keys makes no sense. The positions count from the
// name of the verb, so the names are args[2:behindNames(args)].
func behindNames(args [][]byte) int {
	if len(args) < 3 {
		return 0
	}
	n, err := integerArg("numkeys", args[1], 1, mostNames, "")
	if err != nil || int(n) > len(args)-2 {
		return 0
	}
	return 2 + int(n)
}

// manyNames is the Check of these verbs. It runs before the verb, so that behindNames cannot be 0 there.
func manyNames(verb *commands.Command) func(args [][]byte) (refusal []byte) {
	return func(args [][]byte) []byte {
		end := behindNames(args)
		if end == 0 {
			err := fmt.Errorf("numkeys must be the number of the keys behind it, from 1 to %d, not %q",
				mostNames, resp.Clip(args[1]))
			return commands.ErrorReply(verb.Usage(err))
		}
		for i := 2; i < end; i++ {
			if refusal := shortName(i)(args); refusal != nil {
				return refusal
			}
		}
		return nil
	}
}

// keyRights are the rights to read and write the keys of all names. There are none where the number makes no
// sense, which the check refuses.
func keyRights(l *Lockers) func(args [][]byte) []commands.Right {
	return func(args [][]byte) (all []commands.Right) {
		for i := 2; i < behindNames(args); i++ {
			all = append(all, writeRight(l.keyOf(args[i])))
		}
		return all
	}
}

// secretBehindNames hides the token right behind the names, and what is no option behind that. Where the
// names end is not always clear: then it hides all of them. The verb needs one argument behind the names, so
// a number that leaves none is wrong.
func secretBehindNames(args [][]byte, secret []bool) {
	end := behindNames(args)
	if end == 0 || end == len(args) {
		commands.SecretsFrom(2)(args, secret)
		return
	}
	secretTokens(args[end-1:], secret[end-1:])
	secret[end] = true
	secret[end-1] = optionOf(args[end]) != nil // numkeys is too high
}

// manyVerb makes a verb about several locks. It begins when all earlier commands of its client are answered.
// docs names only what stands behind the keys.
func (l *Lockers) manyVerb(
	name string, arity int, flags commands.Flags, docs commands.Docs, run runner,
) *commands.Command {
	docs.Complexity = "O(N), N being the locks"
	docs.Arguments = append([]commands.Argument{
		{Name: "numkeys", Type: "integer"}, {Name: "key", Type: "key", Multiple: true},
	}, docs.Arguments...)
	verb := l.newVerb(name, arity, flags|commands.Write|commands.Alone, docs, run)
	verb.Keys = []commands.KeySpec{{
		Begin: 1, Counted: true, First: 1, Flags: []string{"RW", "access", "update"},
	}}
	verb.Needs, verb.Check = keyRights(l), manyNames(verb)
	return verb
}

// heldVerb is a verb about several holds of one token:
//
//	VERB numkeys key [key ...] token [options]
//
// run is its task. It ends what it has begun, also if its client goes. The token always stands right behind
// the names, without its word.
func (l *Lockers) heldVerb(
	name, summary string, run func(ctx context.Context, m *many) []byte, words ...string,
) *commands.Command {
	verb := l.manyVerb(name, -4, 0, commands.Docs{
		Summary:   summary,
		Arguments: append([]commands.Argument{{Name: "token", Type: "string"}}, takes(words...)...),
	}, func(c *commands.Call, s *syntax) error {
		m, err := l.newHeld(c, s)
		if err != nil {
			return err
		}
		c.Task(commands.Returning(func(ctx context.Context) []byte {
			return run(context.WithoutCancel(ctx), &m)
		}), nil)
		return nil
	})
	verb.Secret = secretBehindNames
	return verb
}

// many is a verb for several locks on its way. Its methods are called on the goroutine of the task.
type many struct {
	set    *locks.LockSet
	all    *Lockers
	grants holds.Grants    // of the connection when it asked: RESET replaces them
	who    *redlock.Client // the client
	losses []uint64        // by part of the set: so many holds were lost before it asked
}

// newMany makes the set of the locks that a verb names, for its other arguments. It runs on the loop, for it
// reads the client's state.
func (l *Lockers) newMany(c *commands.Call, a redlock.Acquire) many {
	of := func(name string) *locks.Locker { return l.engineOf([]byte(name)) }
	a.Client, a.ID = c.Client.Holder(), "" // each lock has its own
	var names []string
	// the check has passed
	for _, name := range c.Args[2:behindNames(c.Args)] {
		names = append(names, string(name))
	}
	m := many{set: locks.NewSet(of, names, a), all: l, grants: c.Client.Grants, who: a.Client}
	for _, p := range m.set.Parts() {
		if p.Keeper == "" {
			p.Keeper = c.Client.Keepalives.Keeper(p.Name, m.set.Token())
		}
		// as of now, before anything is sent
		m.losses = append(m.losses, p.L.Losses())
	}
	return m
}

// untold is the error for losses that nobody who came with the token was told of: all of them are told by it.
// then says what to do at last. The error names the first.
func (m *many) untold(then string) (err error) {
	for _, p := range m.set.Parts() {
		err = cmp.Or(err, untold(p.L, p.Name, m.set.Token(), 0, then))
	}
	return err
}

// lostMeanwhile is lostMeanwhile for the locks that the token holds. held says of which locks Redis has a
// hold of the token.
func (m *many) lostMeanwhile(held func(p *locks.SetPart) bool) error {
	for i, p := range m.set.Parts() {
		if !held(p) {
			continue
		}
		if err := lostMeanwhile(p.L, m.losses[i], p.Name, m.set.Token(), 0); err != nil {
			return err
		}
	}
	return nil
}

// parseMany reads the options from argument at on, by the bounds that hold for all locks which are named.
// Engines differ in their longest lease. The lease is that of the strictest engine if none is given.
func (l *Lockers) parseMany(
	a *arguments, s *syntax, args [][]byte, at int,
) (strictest *locks.Locker, err error) {
	strictest = l.engineOf(args[2])
	for _, name := range args[2:behindNames(args)] {
		if one := l.engineOf(name); one.MaxLease() < strictest.MaxLease() {
			strictest = one
		}
	}
	if err = a.parseBehind(s, strictest, args, at); a.Lease == 0 {
		a.Lease = strictest.Lease()
	}
	return strictest, err
}

// newHeld reads the arguments of a verb about holds that go on: its locks and the token behind them, then
// options. Its errors come before anything is sent.
func (l *Lockers) newHeld(c *commands.Call, s *syntax) (m many, err error) {
	var args arguments
	at := behindNames(c.Args)
	if at == len(c.Args) {
		return m, s.verb.Usage(errors.New("the token is missing"))
	}
	if err = checkToken(c.Args[at]); err != nil {
		return m, s.verb.Usage(err)
	}
	if _, err = l.parseMany(&args, s, c.Args, at+1); err != nil {
		return m, err
	}
	return l.newMany(c, redlock.Acquire{Token: string(c.Args[at]), Lease: args.Lease}), nil
}
