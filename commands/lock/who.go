package lock

import (
	"context"

	"lockproxy/commands"
	"lockproxy/internal/resp"
	"lockproxy/redlock"
	"lockproxy/redlock/locks"
	"lockproxy/redlock/who"
)

// sees returns a function that says whether the client of c may see the addresses and the users of others, as
// CLIENT LIST shows them. It blocks, and is for a task. It is made on the loop, from what c says, and may be
// called when c is over. Without an answer of the upstream it says no.
func (l *Lockers) sees(c *commands.Call) func(ctx context.Context) bool {
	user := c.Connection().UpstreamUser()
	// the client has the rights of the proxy
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

// knownClients is which clients have to do with these locks, by name. It leaves out what the client who asks
// may not see; nil: it may see all. It blocks. The result is nil if nobody knows any client. Names of
// clients, and how long they wait, are shown to all.
func (l *Lockers) knownClients(
	ctx context.Context, sees func(context.Context) bool, found ...locks.Listed,
) map[string]who.Known {
	if l.Who == nil {
		return nil
	}
	states := make(map[string]redlock.State, len(found))
	for _, one := range found {
		states[one.Name] = one.State
	}
	all := l.Who.Of(ctx, states)
	if sees == nil || sees(ctx) {
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
	return resp.AppendBulks(b, "client", c.Name, "addr", c.Addr, "user", c.User, "proxy", proxy)
}
