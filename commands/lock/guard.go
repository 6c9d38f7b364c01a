package lock

import (
	"bytes"
	"errors"
	"strings"

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
// the node gets the script itself, as the user that the client is. What is guarded is a command of the
// upstream with its own row, keys and secrets: Command.Inner finds it, so that rights and MONITOR see both.
func guardVerb(l *Lockers) *commands.Command {
	verb := l.newVerb("guard", -4, commands.Write, commands.Docs{
		Summary:    "Runs one command, if a token or a fence holds the lock, in one step.",
		Complexity: "That of the command; with FENCE, O(N) more, N being the readers",
		Arguments: []commands.Argument{
			keyArgument,
			either("holder", commands.Argument{Name: "token", Type: "string"}, shown("TOKEN"),
				shown("FENCE")),
			{Name: "command", Type: "string"},
			{Name: "arg", Type: "string", Optional: true, Multiple: true},
		},
	}, func(c *commands.Call, _ *syntax) error { return guard(c, l) })
	verb.Needs = func(args [][]byte) []commands.Right { return readRights(l.keyOf(args[1])) }
	// StandIn is called when the command is queued, with the database that it will run in.
	verb.Secret, verb.InnerAt = guardSecrets, guardedAt
	verb.StandIn = func(c *commands.Call, db int) ([]byte, error) { return guardInMulti(c, l, db) }
	return verb
}

// guardedAt is where the guarded command begins. The key is argument 1 and the token 2, or its word 2 and the
// token or fence 3. 0: there is no command. A token that is spelled TOKEN must be given behind that word.
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
func guardSecrets(args [][]byte, secret []bool) {
	switch {
	case len(args) < 3 || resp.IsWord(args[2], "FENCE"):
	case !resp.IsWord(args[2], "TOKEN"):
		secret[2] = true
	case len(args) > 3:
		secret[3] = true
	}
}

// guarded is one GUARD on its way. Its Command and Keys alias the read buffer, unless a node was asked for
// the keys: then Command is a copy.
type guarded struct {
	redlock.Guard
	l     *locks.Locker
	inner *commands.Command
}

// guard finds the keys of the command, which have to be in the slot of the lock, and has the engine run it.
// After an error nothing has run.
func guard(c *commands.Call, all *Lockers) error {
	g, err := readGuard(c, all, c.Client.DB)
	if err != nil {
		return err
	}
	// What would run with the wrong rights is refused first, whatever its keys are.
	err = g.findKeys(c)
	switch {
	case g.runsAsProxy(c) && err == commands.ErrAskKeys:
		return errRunsUnjudged
	case g.runsAsProxy(c):
		return errRunsAsProxy
	case err == commands.ErrAskKeys:
		g.Command = resp.CloneArgs(g.Command)
		// A node is asked for the keys, and c is not valid any more when it answers.
		by := c.Actions
		by.FindKeys(g.Command, func(keys [][]byte) []byte {
			g.Keys = keys
			if err := g.fitsSlot(); err != nil {
				return commands.ErrorReply(err)
			}
			g.askGuard(by)
			return nil
		})
		return nil
	case err != nil:
		return err
	}
	g.askGuard(c.Actions)
	return nil
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

// takeScript puts the source into the guarded EVAL or EVALSHA: it becomes part of the script of GUARD. Redis
// lets no script call another, so there is no other way.
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
	// So an EVALSHA behind it works as after any EVAL. Of a user it is not remembered: it is not known yet
	// whether the user may run it.
	if given && c.AsProxy() {
		c.Server.Scripts().Add(source)
	}
	return nil
}

// askGuard sends it. The reply of the command, errors too, goes to the client as it is.
func (g *guarded) askGuard(by redlock.Caller) {
	l := g.l // g, which has the read buffer, is not kept until the reply
	l.Guard(by, &g.Guard, func(reply []byte, err error) []byte {
		if err != nil {
			return commands.ErrorReply(err)
		}
		l.CountGuard(reply)
		return reply
	})
}

// guardInMulti is the request that the node gets between MULTI and EXEC. It cannot ask a node for the keys
// first, since what it returns is queued at once.
func guardInMulti(c *commands.Call, all *Lockers, db int) (req []byte, err error) {
	g, err := readGuard(c, all, db)
	if err != nil {
		return nil, err
	}
	err = g.findKeys(c)
	switch {
	case g.runsAsProxy(c) && (err == commands.ErrAskKeys || !c.Server.Upstream().AtLeast(7, 0)):
		return nil, errRunsUnjudged
	case err == commands.ErrAskKeys:
		return nil, errors.New("ERR only Redis knows the keys of this command, so GUARD cannot run it " +
			"inside a transaction of a cluster: send it before MULTI or after EXEC")
	case err != nil:
		return nil, err
	}
	return g.l.GuardRequest(&g.Guard)
}

// readGuard reads the arguments, or says why it cannot run. db is the database of the command: the lock
// itself is in database 0.
func readGuard(c *commands.Call, all *Lockers, db int) (g *guarded, err error) {
	at := guardedAt(c.Args)
	if at == 0 {
		return nil, c.Command.Usage(errors.New("a command is missing"))
	}
	g = &guarded{l: all.engineOf(c.Args[1])}
	g.Name, g.DB, g.Command = string(c.Args[1]), db, c.Args[at:]
	holder := c.Args[at-1]
	if at == 4 && resp.IsWord(c.Args[2], "FENCE") {
		g.Fence, err = integerArg("FENCE", holder, 1, maxFence, "")
	} else {
		g.Token, err = string(holder), checkToken(holder)
	}
	if err != nil {
		return nil, c.Command.Usage(err)
	}
	inner, refusal := c.Table.Resolve(g.Command)
	// An unknown command keeps the refusal that it has.
	if inner != c.Table.Unknown() {
		refusal = unguardable(inner, g.Command)
	}
	if refusal != nil {
		return nil, said(refusal)
	}
	g.inner, g.Again = inner, inner.Flags&commands.ReadOnly != 0
	if inner.Flags&commands.Scripted != 0 {
		err = g.takeScript(c)
	}
	return g, err
}

// said is an error reply as an error.
func said(reply []byte) error { return redlock.ReplyError(bytes.TrimRight(reply[1:], "\r\n")) }

// unguardable says why GUARD does not run args, a command; nil: it does. GUARD runs what goes to one node as
// it stands, does not wait, and may be in a script; and scripts, whose sources become part of its own. args
// are the command with its name. The first reason that fits is told.
func unguardable(c *commands.Command, args [][]byte) (refusal []byte) {
	const publishes = commands.PubSub | commands.Replicates
	blocks := false
	if c.Route == commands.Blocks {
		_, blocks = c.Blocks(args)
	}
	why := ""
	switch {
	case c.Route == commands.Refused:
		return c.Refusal()
	case c.Flags&commands.LockVerb != 0:
		why = ": it is a lock verb itself"
	case c.Script == commands.ScriptFunction:
		why = ": Redis lets no script call a function"
	case c.Flags&commands.Scripted != 0 && strings.HasSuffix(c.Name, "_ro"):
		why = ": nothing would keep the script from writing, as EVAL does not"
	case c.Flags&commands.Scripted != 0 && c.Fits(len(args)):
		return nil
	case c.Flags&commands.Scripted != 0:
		return c.WrongArity()
	case blocks:
		why = ": it may block, and in a script nothing waits"
	case c.Flags&commands.NoScript != 0:
		why = ": Redis lets no script run it"
	case c.Route != commands.ByKeys && c.Route != commands.Split && c.Route != commands.Blocks &&
		c.Flags&publishes != publishes:
		why = ": it is not about keys"
	case !c.Fits(len(args)):
		return c.WrongArity()
	// the bounds of the command hold inside GUARD too
	default:

		return c.Excess(args, commands.MaxChannel+1) // so long that its names are looked at
	}
	return commands.Refusal(c.Name, " inside GUARD"+why)
}

// runsAsProxy says that Redis looks at rights while the command runs, and not only before: at those of the
// proxy, which has sent the script, although its client is another user. ACL DRYRUN says nothing of that. So
// it is with scripts, with commands of modules, which may find keys by an index, and with those whose keys
// the server itself cannot tell.
func (g *guarded) runsAsProxy(c *commands.Call) bool {
	switch inner := g.inner; {
	case c.AsProxy():
		return false
	case inner.Finds != nil:
		return inner.Finds(g.Command)
	case inner.Flags&(commands.Scripted|commands.OfModule) != 0:
		return true
	}
	_, err := g.inner.Slot(g.Command)
	return err == commands.ErrAskKeys
}

// findKeys finds the keys of the guarded command. commands.ErrAskKeys: a node has to be asked for them.
// Only a cluster has slots: elsewhere the keys are where the lock is. It fails with commands.ErrCrossSlot if
// they are not in the slot of the lock.
func (g *guarded) findKeys(c *commands.Call) error {
	if !c.Server.Clustered() {
		return nil
	}
	if _, err := g.inner.Slot(g.Command); err != nil {
		return err
	}
	for _, i := range g.inner.KeyIndexes(g.Command) {
		g.Keys = append(g.Keys, g.Command[i])
	}
	return g.fitsSlot()
}

// fitsSlot says whether the keys are in the slot of the lock.
func (g *guarded) fitsSlot() error {
	at := slot.Of([]byte(g.l.Key(g.Name)))
	for _, key := range g.Keys {
		if slot.Of(key) != at {
			return commands.ErrCrossSlot
		}
	}
	return nil
}
