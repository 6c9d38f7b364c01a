package lock

import (
	"time"

	"github.com/tidwall/redcon"

	"lockproxy/commands"
	"lockproxy/commands/holds"
	"lockproxy/internal/resp"
	"lockproxy/redlock"
	"lockproxy/redlock/keepalive"
	"lockproxy/redlock/locks"
)

// renewVerb is
//
//	RENEW key [token | TOKEN token] [PX ms | EX s] [FENCE n] [KEEPALIVE [MAX n] [LINGER ms]]
//
// Reply: the ms that are left; 0: the token holds nothing here. A lease is never made shorter. With KEEPALIVE
// this connection keeps the hold alive from now on.
func renewVerb(l *Lockers) *commands.Command {
	verb := &commands.Command{
		Name: "renew", Arity: -2, Flags: commands.Write | commands.LockVerb, Keys: onKey,
		Route: commands.Local,
		Needs: keyRight(l), Secret: secretTokens, Check: shortName(1),
		Docs: &commands.Docs{
			Summary: "Makes the lease of a hold longer.", Since: "0.1.0", Group: "lock", Complexity: "O(1)",
			Arguments: []commands.Argument{{Name: "key", Type: "key"}, tokenArgument, leaseArgument,
				fenceArgument, keepArgument},
		},
	}
	syntax := newSyntax(verb)
	verb.Run = func(c *commands.Call) { renew(c, l, syntax) }
	return verb
}

func renew(c *commands.Call, all *Lockers, s *syntax) {
	l := all.of(c.Args[1])
	var args arguments
	if err := args.parseHeld(s, c, l); err != nil {
		c.Reply(commands.ErrorReply(err))
		return
	}
	if args.lease == 0 {
		args.lease = l.Lease()
	}
	if lost, ok := l.Untold(args.name, args.token, args.fence); ok {
		c.Reply(commands.ErrorReply(errLost(args.name, lost, thenLock)))
		return
	}
	ledger, by := all.Ledger, c.Client.Holder()
	var keeps *holds.Kept
	var push holds.Pusher
	keeper := c.Client.Keepalives.Keeper(args.name, args.token)
	if args.keep {
		if err := mayKeep(c, l, &args); err != nil {
			c.Reply(commands.ErrorReply(err))
			return
		}
		keeps, push, keeper = c.Client.Keepalives.Open(), c.Pusher(), l.NewKeeper()
	}
	sent, losses := time.Now(), l.Losses()
	asked := &redlock.Renew{Name: args.name, Token: args.token, Lease: args.lease, Fence: args.fence,
		Keeper: keeper}
	l.Renew(c.Actions, asked, func(r redlock.Renewed, err error) []byte {
		l.CountRenew(r, err)
		if err != nil {
			return commands.ErrorReply(err)
		}
		left := r.Left
		if left <= 0 {
			if args.fence == 0 {
				e, ok := l.NotHeld(args.name, args.token, nil)
				ledger.notHeld(args.name, e, ok)
			}
			if err := whyNothing(l, args.name, args.token, args.fence); err != nil {
				return commands.ErrorReply(err)
			}
			return resp.Zero
		}
		until, letGo := sent.Add(left), func() {}
		if args.keep {
			letGo = keeps.Keep(l, ledger.keeping(keepalive.Hold{
				Name: args.name, Token: args.token, Fence: r.Fence, Lease: args.lease, Until: until,
				Keeper: keeper, Max: args.renewals, Linger: args.linger,
			}, by), push).Release
		} else {
			l.Prolonged(args.name, args.token, until, 0)
		}
		if err := lostMeanwhile(l, losses, args.name, args.token, args.fence); err != nil {
			letGo()
			return commands.ErrorReply(err)
		}
		l.Renewed(args.name, args.token, until, by, args.keep)
		return redcon.AppendInt(nil, left.Milliseconds())
	})
}

// mayKeep returns an error if the connection may not keep the hold alive. To take one over that this proxy
// keeps alive already makes no more of them.
func mayKeep(c *commands.Call, l *locks.Locker, a *arguments) error {
	if a.token != "" && l.KeeperOf(a.name, a.token) != "" {
		return nil
	}
	return c.Client.Keepalives.Full(l, c.Client.Host())
}
