package lock

import (
	"bytes"
	"errors"

	"lockproxy/commands"
	"lockproxy/internal/resp"
	"lockproxy/internal/slot"
	"lockproxy/redlock"
	"lockproxy/redlock/locks"
)

// guardVerb is
//
//	GUARD key token | TOKEN token | FENCE n command [arg ...]
//
// Reply: that of the command; -NOTHELD: the token, or the grant with that fence, does not hold the lock, and
// the command has not run. The command needs its own rights beside those to the lock. Between MULTI and EXEC
// the node gets the script itself, as the user that the client is.
func guardVerb(l *Lockers) *commands.Command {
	verb := l.verb("guard", -4, commands.Write, commands.Docs{
		Summary:    "Runs one command, if a token or a fence holds the lock, in one step.",
		Complexity: "That of the command; with FENCE, O(N) more, N being the readers",
		Arguments: []commands.Argument{
			keyArgument,
			either("holder", commands.Argument{Name: "token", Type: "string"}, shown("TOKEN"), shown("FENCE")),
			{Name: "command", Type: "string"},
			{Name: "arg", Type: "string", Optional: true, Multiple: true},
		},
	}, func(c *commands.Call, _ *syntax) { guard(c, l) })
	verb.Needs = func(args [][]byte) []commands.Right { return readRights(l.key(args[1])) }
	verb.Secret, verb.InnerAt = guardSecrets, guardedAt
	verb.StandIn = func(c *commands.Call, db int) (req, refusal []byte) { return guardInMulti(c, l, db) }
	return verb
}

// guardedAt is where the guarded command begins.
func guardedAt(args [][]byte) int {
	at := 3
	if len(args) > 2 && (resp.IsWord(args[2], "TOKEN") || resp.IsWord(args[2], "FENCE")) {
		at = 4
	}
	if at >= len(args) {
		return 0
	}
	return at
}

// guardSecrets marks the token. Those of the guarded command come from that.
func guardSecrets(args [][]byte) []bool {
	secret := make([]bool, len(args))
	switch {
	case len(args) < 3 || resp.IsWord(args[2], "FENCE"):
	case !resp.IsWord(args[2], "TOKEN"):
		secret[2] = true
	case len(args) > 3:
		secret[3] = true
	}
	return secret
}

// guarded is one GUARD on its way.
type guarded struct {
	redlock.Guard
	l     *locks.Locker
	inner *commands.Command
}

func guard(c *commands.Call, all *Lockers) {
	g, refusal := readGuard(c, all, c.Client.DB)
	if refusal != nil {
		c.Reply(refusal)
		return
	}
	keys, err := g.findKeys(c)
	switch {
	case !c.AsProxy() && g.inner.JudgedInside(g.Command) && err == commands.ErrAskKeys:
		c.Reply(commands.ErrorReply(errRunsUnjudged))
	case !c.AsProxy() && g.inner.JudgedInside(g.Command):
		c.Reply(commands.ErrorReply(errRunsAsProxy))
	case err == commands.ErrAskKeys:
		g.Command = lasting(g.Command)
		by := c.Actions
		by.FindKeys(g.Command, func(keys [][]byte) []byte {
			if err := g.fits(keys); err != nil {
				return commands.ErrorReply(err)
			}
			g.Keys = keys
			g.ask(by)
			return nil
		})
	case err != nil:
		c.Reply(commands.ErrorReply(err))
	default:
		g.Keys = keys
		g.ask(c.Actions)
	}
}

// errRunsAsProxy is why a user of the upstream cannot guard outside of a transaction what Redis judges while
// it runs.
var errRunsAsProxy = redlock.ReplyError("ERR this would run inside GUARD with the rights of the proxy, " +
	"and not with those of its user, since Redis looks for its keys while it runs: send it between MULTI " +
	"and EXEC, where it runs with these")

// errRunsUnjudged is why it cannot do so in one, either: before Redis 7.0, which judges no patterns, and lets
// no script ask whether its user may run scripts; and in a cluster, if only a node can tell the keys.
var errRunsUnjudged = redlock.ReplyError("ERR nothing would judge this inside GUARD by the rights of " +
	"its user")

// errNoScript is what Redis says to an EVALSHA that it does not know.
var errNoScript = redlock.ReplyError("NOSCRIPT No matching script. Please use EVAL.")

// takeScript puts the source into the guarded EVAL or EVALSHA: it becomes part of the script of GUARD.
func (g *guarded) takeScript(c *commands.Call) error {
	source, given := g.Command[1], resp.IsWord(g.Command[0], "EVAL")
	if !given {
		known := false
		if source, known = c.Server.Scripts().Get(source); !known {
			return errNoScript
		}
	}
	if bytes.HasPrefix(source, []byte("#!")) {
		return redlock.ReplyError("ERR a script that begins with #! is not available inside GUARD: Redis " +
			"would not see its flags")
	}
	g.Command = append([][]byte{bytes.ToUpper(g.Command[0]), source}, g.Command[2:]...)
	if given && c.AsProxy() {
		c.Server.Scripts().Add(source)
	}
	return nil
}

func (g *guarded) ask(by redlock.Caller) {
	l := g.l
	l.Guard(by, &g.Guard, func(reply []byte, err error) []byte {
		if err != nil {
			return commands.ErrorReply(err)
		}
		l.CountGuard(reply)
		return reply
	})
}

// guardInMulti is the request that the node gets between MULTI and EXEC.
func guardInMulti(c *commands.Call, all *Lockers, db int) (req, refusal []byte) {
	g, refusal := readGuard(c, all, db)
	if refusal != nil {
		return nil, refusal
	}
	keys, err := g.findKeys(c)
	switch {
	case !c.AsProxy() && g.inner.JudgedInside(g.Command) &&
		(err == commands.ErrAskKeys || !c.Server.Upstream().AtLeast(7, 0)):
		err = errRunsUnjudged
	case err == commands.ErrAskKeys:
		err = errors.New("ERR only Redis knows the keys of this command, so GUARD cannot run it inside a " +
			"transaction of a cluster: send it before MULTI or after EXEC")
	}
	if err == nil {
		g.Keys = keys
		req, err = g.l.GuardRequest(&g.Guard)
	}
	if err != nil {
		return nil, commands.ErrorReply(err)
	}
	return req, nil
}

// readGuard reads the arguments. refusal is why it cannot run.
func readGuard(c *commands.Call, all *Lockers, db int) (g *guarded, refusal []byte) {
	at := guardedAt(c.Args)
	if at == 0 {
		return nil, commands.ErrorReply(c.Command.Usage(errors.New("a command is missing")))
	}
	g = &guarded{l: all.of(c.Args[1])}
	g.Name, g.DB, g.Command = string(c.Args[1]), db, c.Args[at:]
	holder := c.Args[at-1]
	if at == 4 && resp.IsWord(c.Args[2], "FENCE") {
		n, err := integerArg("FENCE", holder, 1, maxFence, "")
		if err != nil {
			return nil, commands.ErrorReply(c.Command.Usage(err))
		}
		g.Fence = n
	} else {
		if err := checkToken(holder); err != nil {
			return nil, commands.ErrorReply(c.Command.Usage(err))
		}
		g.Token = string(holder)
	}
	inner, refused := c.Table.Resolve(g.Command)
	if refusal = inner.Guardable(g.Command); inner == c.Table.Unknown() {
		refusal = refused
	}
	g.inner, g.Again = inner, inner.Flags&commands.ReadOnly != 0
	if refusal == nil && inner.Flags&commands.Scripted != 0 {
		if err := g.takeScript(c); err != nil {
			refusal = commands.ErrorReply(err)
		}
	}
	return g, refusal
}

// findKeys returns the keys of the guarded command. commands.ErrAskKeys: a node has to be asked for them.
// Only a cluster has slots: elsewhere the keys are where the lock is.
func (g *guarded) findKeys(c *commands.Call) (keys [][]byte, err error) {
	if !c.Server.Clustered() {
		return nil, nil
	}
	if _, err := g.inner.Slot(g.Command); err != nil {
		return nil, err
	}
	for _, i := range g.inner.KeyIndexes(g.Command) {
		keys = append(keys, g.Command[i])
	}
	return keys, g.fits(keys)
}

// fits says whether the keys are in the slot of the lock.
func (g *guarded) fits(keys [][]byte) error {
	at := slot.Of([]byte(g.l.Key(g.Name)))
	for _, key := range keys {
		if slot.Of(key) != at {
			return commands.ErrCrossSlot
		}
	}
	return nil
}

// lasting copies words that alias the read buffer.
func lasting(words [][]byte) [][]byte {
	copied := make([][]byte, len(words))
	for i, word := range words {
		copied[i] = bytes.Clone(word)
	}
	return copied
}
