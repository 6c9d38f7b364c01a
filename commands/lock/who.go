package lock

import (
	"context"

	"lockproxy/commands"
	"lockproxy/redlock"
	"lockproxy/redlock/who"
)

// sees returns a function that says whether the client of c may see the addresses and the users of others, as
// CLIENT LIST shows them. It blocks, and is for a task.
func (l *Lockers) sees(c *commands.Call) func(ctx context.Context) bool {
	user := c.Connection().UpstreamUser()
	if user == "" || l.Ask == nil {
		return func(context.Context) bool { return true }
	}
	cmd, right := c.Command, commands.NewRight("CLIENT", "LIST")
	rights := commands.NewRightsOf(user, c.Server, c.Table)
	return func(ctx context.Context) bool {
		reply, err := l.Ask(ctx, rights.Ask(right))
		return err == nil && rights.Judge(cmd, right, right, reply).Refusal == nil
	}
}

// known is which clients have to do with locks in these states. It leaves out what the client who asks may
// not see. It blocks.
func (l *Lockers) known(ctx context.Context, sees func(context.Context) bool,
	states map[string]redlock.State,
) map[string]who.Known {
	if l.Who == nil {
		return nil
	}
	all := l.Who.Of(ctx, states)
	if sees(ctx) {
		return all
	}
	for _, known := range all {
		for digest, h := range known.Holders {
			h.Addr, h.User = "", ""
			known.Holders[digest] = h
		}
		for i := range known.Waiters {
			known.Waiters[i].Addr, known.Waiters[i].User = "", ""
		}
	}
	return all
}

// appendClient appends what is known of a client as pairs of a map. What is not known is empty.
func appendClient(b []byte, c redlock.Client, proxy string) []byte {
	b = appendPair(b, "client", c.Name)
	b = appendPair(b, "addr", c.Addr)
	b = appendPair(b, "user", c.User)
	return appendPair(b, "proxy", proxy)
}
