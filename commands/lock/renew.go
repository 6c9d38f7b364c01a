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
	return l.newVerb("renew", -2, commands.Write, commands.Docs{
		Summary: "Makes the lease of a hold longer.", Complexity: "O(1)",
		Arguments: append([]commands.Argument{keyArgument}, takes("token", "lease", "FENCE", "keepalive")...),
	}, func(c *commands.Call, s *syntax) error { return renew(c, l, s) })
}

// All that is needed later is read from c before the request is sent: c is not valid any more when the answer
// comes. The lease counts from sent, so here it ends no later than in Redis.
func renew(c *commands.Call, all *Lockers, s *syntax) error {
	l := all.engineOf(c.Args[1])
	var args arguments
	if err := args.parseHeld(s, c, l); err != nil {
		return err
	}
	if args.Lease == 0 {
		args.Lease = l.Lease()
	}
	// A lost hold must not be renewed: see lost.go.
	if err := untold(l, args.Name, args.Token, args.only, thenLock); err != nil {
		return err
	}
	ledger, by := all.Ledger, c.Client.Holder()
	var keeps *holds.KeptSet
	var push holds.Pusher
	keeper := c.Client.Keepalives.Keeper(args.Name, args.Token)
	if args.Keep {
		if err := mayKeep(c, l, &args); err != nil {
			return err
		}
		// With a new keeper, Redis takes the hold from whoever keeps it alive now; from another proxy
		// by the first renewal.
		keeps, push, keeper = c.Client.Keepalives.Open(), c.Pusher(), l.NewKeeper()
	}
	sent, losses, fence := time.Now(), l.Losses(), l.Granting(args.Name, args.Token)
	asked := &redlock.Renew{Name: args.Name, Token: args.Token, Lease: args.Lease, Fence: args.only,
		Keeper: keeper}
	l.Renew(c.Actions, asked, func(r redlock.Renewed, err error) []byte {
		l.CountOutcome(r.Left > 0, err, locks.Renewed, locks.NotRenewed)
		if err != nil {
			return commands.ErrorReply(err)
		}
		left := r.Left
		if left <= 0 {
			if args.only == 0 {
				ledger.noteNotHeld(args.Name, args.Token, fence, nil)
			}
			if err := whyNothing(l, args.Name, args.Token, args.only); err != nil {
				return commands.ErrorReply(err)
			}
			return resp.Zero
		}
		// letGo ends what has just begun to be kept alive, if it turns out to be lost.
		until, letGo := sent.Add(left), func() {}
		if args.Keep {
			letGo = keeps.Keep(l, ledger.watchHold(keepalive.Hold{
				Name: args.Name, Token: args.Token, Fence: r.Fence, Lease: args.Lease, Until: until,
				Keeper: keeper, Terms: args.terms,
			}, by), push).Release
		} else {
			l.Prolonged(args.Name, args.Token, until, 0)
		}
		if err := lostMeanwhile(l, losses, args.Name, args.Token, args.only); err != nil {
			letGo()
			return commands.ErrorReply(err)
		}
		l.Renewed(args.Name, args.Token, until, by, args.Keep)
		return redcon.AppendInt(nil, left.Milliseconds())
	})
	return nil
}

// mayKeep returns an error if the connection may not keep the hold alive. To take one over that this proxy
// keeps alive already makes no more of them. The bound is that of the Locker, for all connections together:
// see Keepalives.Room.
func mayKeep(c *commands.Call, l *locks.Locker, a *arguments) error {
	if a.Token != "" && l.KeeperOf(a.Name, a.Token) != "" {
		return nil
	}
	return c.Client.Keepalives.Room(l, c.Client.Host(), 1)
}
