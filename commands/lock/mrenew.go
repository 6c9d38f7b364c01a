package lock

import (
	"context"
	"time"

	"github.com/tidwall/redcon"

	"lockproxy/commands"
	"lockproxy/redlock/locks"
)

// mrenewVerb is
//
//	MRENEW numkeys key [key ...] token [PX ms | EX s]
//
// Reply: the least ms that are left; 0: the token does not hold all of them. No lease is made shorter.
func mrenewVerb(l *Lockers) *commands.Command {
	verb := &commands.Command{
		Name: "mrenew", Arity: -4, Keys: onKeys, Route: commands.Local,
		Flags: commands.Write | commands.LockVerb | commands.Alone,
		Needs: keyRights(l), Secret: secretBehindNames,
		Docs: &commands.Docs{
			Summary: "Makes the leases of several holds longer.", Since: "0.2.0", Group: "lock",
			Complexity: "O(N), N being the locks",
			Arguments: append(namesArguments[:len(namesArguments):len(namesArguments)],
				commands.Argument{Name: "token", Type: "string"}, leaseArgument),
		},
	}
	verb.Check = manyNames(verb)
	syntax := newSyntax(verb)
	syntax.bare = false // it stands right behind the names
	verb.Run = func(c *commands.Call) { mrenew(c, l, syntax) }
	return verb
}

func mrenew(c *commands.Call, all *Lockers, s *syntax) {
	m, err := all.newHeld(c, s)
	if err != nil {
		c.Reply(commands.ErrorReply(err))
		return
	}
	c.Task(func(ctx context.Context) []byte {
		sent := time.Now()
		err := m.set.Renew(context.WithoutCancel(ctx))
		least := m.set.Parts()[0].Renewed.Left
		for _, p := range m.set.Parts() {
			m.renewed(p, sent)
			least = min(least, p.Renewed.Left)
		}
		if err == nil {
			err = m.lostMeanwhile(func(p *locks.Part) bool { return p.Renewed.Left > 0 })
		}
		if err == nil {
			err = m.whyNothing(func(p *locks.Part) bool { return p.Renewed.Left > 0 })
		}
		if err != nil {
			return commands.ErrorReply(err)
		}
		return redcon.AppendInt(nil, least.Milliseconds())
	}, nil)
}

// renewed notes the outcome for one lock, of a request that was sent then.
func (m *many) renewed(p *locks.Part, sent time.Time) {
	token, until := m.set.Token(), sent.Add(p.Renewed.Left)
	switch {
	case p.Err != nil:
		return
	case p.Renewed.Left > 0:
		m.ledger.renewed(p.Name, token, until, p.L.Keeps(p.Name, token))
		p.L.Prolonged(p.Name, token, until)
		p.L.Renewed(p.Name, token, until, m.who)
	default:
		m.ledger.notHeld(p.Name, token)
	}
	m.grants.Renewed(p.Name, token, p.Renewed.Left)
}
