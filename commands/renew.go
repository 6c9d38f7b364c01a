package commands

import (
	"time"

	"github.com/tidwall/redcon"

	"lockproxy/redlock"
)

// renewVerb is
//
//	RENEW key [token | TOKEN token] [PX ms | EX s] [FENCE n] [KEEPALIVE [MAX n]]
//
// Reply: the ms that remain; 0: the token holds nothing here. A lease is never
// made shorter. With KEEPALIVE the hold is from now on kept alive by this connection.
func renewVerb(l *Lockers) *Command {
	verb := &Command{
		Name: "renew", Arity: -2, Flags: Write | LockVerb, Keys: onKey, Route: Local,
		needs: keyRight(l), secret: secretTokens, check: shortName(1),
		Docs: &Docs{
			Summary: "Makes the lease of a hold longer.", Since: "0.1.0", Group: "lock", Complexity: "O(1)",
			Arguments: []Argument{{Name: "key", Type: "key"}, tokenArgument, leaseArgument, fenceArgument, keepArgument},
		},
	}
	syntax := newLockSyntax(verb)
	verb.Run = func(c *Call) { renew(c, l, syntax) }
	return verb
}

func renew(c *Call, all *Lockers, s *lockSyntax) {
	l := all.of(string(c.Args[1]))
	var args lockArgs
	if err := args.parseHeld(s, c, l); err != nil {
		c.Reply(ErrorReply(err))
		return
	}
	if args.lease == 0 {
		args.lease = l.Lease()
	}
	grants := c.Client.Grants
	var keeps *keeps
	var push pusher
	relies := c.Client.Kept.relies(args.name, args.token)
	keeper := relies.keeper()
	if args.keep {
		if err := c.Client.Kept.full(l); relies.hold == nil && err != nil {
			c.Reply(ErrorReply(err))
			return
		}
		keeps, push, keeper = c.Client.Kept.on(), c.Pusher(), l.NewKeeper()
	}
	sent := time.Now()
	asked := &redlock.Renew{Name: args.name, Token: args.token, Lease: args.lease, Fence: args.fence, Keeper: keeper}
	l.Renew(&lockCaller{c.Actions}, asked, func(r redlock.Renewed, err error) []byte {
		if err != nil {
			return ErrorReply(err)
		}
		left := r.Left
		if left > 0 || args.fence == 0 {
			grants.renewed(args.name, args.token, left)
		}
		switch until := sent.Add(left); {
		case left <= 0:
		case args.keep:
			keeps.keep(l, redlock.Hold{
				Name: args.name, Token: args.token, Fence: r.Fence, Lease: args.lease, Until: until, Keeper: keeper, Max: args.renewals,
			}, push)
		default:
			l.Prolonged(args.name, args.token, until)
			if err := relies.lost(); err != nil {
				return ErrorReply(err)
			}
		}
		return redcon.AppendInt(nil, left.Milliseconds())
	})
}
