package lock

import (
	"cmp"
	"context"
	"errors"

	"github.com/tidwall/redcon"

	"lockproxy/commands"
	"lockproxy/redlock"
	"lockproxy/redlock/locks"
)

// munlockVerb is
//
//	MUNLOCK numkeys key [key ...] token
//
// Reply: how many of the locks were freed; 0: the token holds none of them.
func munlockVerb(l *Lockers) *commands.Command {
	verb := &commands.Command{
		Name: "munlock", Arity: -4, Keys: onKeys, Route: commands.Local,
		Flags: commands.Write | commands.LockVerb | commands.Alone,
		Needs: keyRights(l), Secret: secretBehindNames,
		Docs: &commands.Docs{
			Summary: "Frees several locks.", Since: "0.2.0", Group: "lock",
			Complexity: "O(N), N being the locks",
			Arguments: append(namesArguments[:len(namesArguments):len(namesArguments)],
				commands.Argument{Name: "token", Type: "string"}),
		},
	}
	verb.Check = manyNames(verb)
	syntax := newSyntax(verb)
	syntax.bare = false // it stands right behind the names
	verb.Run = func(c *commands.Call) { munlock(c, l, syntax) }
	return verb
}

func munlock(c *commands.Call, all *Lockers, s *syntax) {
	m, err := all.newHeld(c, s)
	if err != nil {
		c.Reply(commands.ErrorReply(err))
		return
	}
	c.Task(func(ctx context.Context) []byte {
		err := m.set.Release(context.WithoutCancel(ctx))
		freed := 0
		for _, p := range m.set.Parts() {
			if m.released(p) {
				freed++
			}
		}
		if err == nil {
			err = m.whyNothing(func(p *locks.Part) bool { return p.Released.Held })
		}
		if err != nil {
			return commands.ErrorReply(err)
		}
		return redcon.AppendInt(nil, int64(freed))
	}, nil)
}

// released notes the outcome for one lock, and says whether it was freed.
func (m *many) released(p *locks.Part) bool {
	switch {
	case p.Released.Whole:
		p.L.Unlocked(p.Name, m.set.Token(), p.Released.Keeper)
		m.ledger.released(p.Name, m.set.Token(), m.who)
		m.grants.Forget(p.Name, m.set.Token())
	case !p.Released.Held && p.Err == nil:
		m.ledger.notHeld(p.Name, m.set.Token())
		m.grants.Forget(p.Name, m.set.Token())
	}
	return p.Released.Whole
}

// whyNothing is whyNothing for the locks that the token does not hold. One error tells of all of them.
func (m *many) whyNothing(held func(p *locks.Part) bool) (err error) {
	for _, p := range m.set.Parts() {
		if !held(p) {
			err = cmp.Or(err, whyNothing(p.L, p.Name, m.set.Token(), 0))
		}
	}
	return err
}

// newHeld reads the arguments of a verb about holds that go on: its locks and the token behind them, then
// options.
func (l *Lockers) newHeld(c *commands.Call, s *syntax) (m many, err error) {
	var args arguments
	engine, at := l.strictest(c.Args), behindNames(c.Args)
	if at == len(c.Args) {
		return m, s.verb.Usage(errors.New("the token is missing"))
	}
	if err = checkToken(c.Args[at]); err != nil {
		return m, s.verb.Usage(err)
	}
	if err = args.parseBehind(s, engine, c.Args, at+1); err != nil {
		return m, err
	}
	if args.lease == 0 {
		args.lease = engine.Lease()
	}
	return l.newMany(c, redlock.Acquire{Token: string(c.Args[at]), Lease: args.lease}), nil
}
