package lock

import (
	"context"
	"time"

	"github.com/tidwall/redcon"

	"lockproxy/commands"
	"lockproxy/commands/holds"
	"lockproxy/internal/resp"
	"lockproxy/redlock"
	"lockproxy/redlock/keepalive"
	"lockproxy/redlock/locks"
)

// mlockVerb is
//
//	MLOCK numkeys key [key ...] [TOKEN token] [PX ms | EX s] [WAIT ms] [KEEPALIVE [MAX n] [LINGER ms]]
//	      [META text]
//
// Reply: array of token, array of the fences in the order of the keys, and the least ttl in ms; Null: others
// hold one of the locks, and none is taken.
//
// It begins when the earlier commands of its client are answered, and those behind it wait for it: so there
// is no other order to keep, whatever locks they name.
func mlockVerb(l *Lockers, b *Busiest) *commands.Command {
	verb := &commands.Command{
		Name: "mlock", Arity: -3, Keys: onKeys, Route: commands.Local,
		Flags: commands.Write | commands.Blocking | commands.LockVerb | commands.Alone,
		Needs: keyRights(l), Secret: mlockSecrets,
		Docs: &commands.Docs{
			Summary: "Takes several locks, all of them or none, waiting for them if told to.", Since: "0.1.0",
			Group: "lock", Complexity: "O(N), N being the locks",
			Arguments: append(namesArguments[:len(namesArguments):len(namesArguments)],
				commands.Argument{Name: "token", Type: "string", Token: "TOKEN", Optional: true},
				leaseArgument,
				commands.Argument{Name: "milliseconds", Type: "integer", Token: "WAIT", Optional: true},
				keepArgument,
				commands.Argument{Name: "text", Type: "string", Token: "META", Optional: true}),
		},
	}
	verb.Check = manyNames(verb)
	syntax := newSyntax(verb)
	verb.Run = func(c *commands.Call) { mlock(c, l, b, syntax) }
	return verb
}

// mlockSecrets marks the token, also where numkeys is too high, so that it stands among the names.
func mlockSecrets(args [][]byte) []bool {
	end := behindNames(args)
	if end == 0 {
		return secretTokens(args)
	}
	secret := append(make([]bool, end-2), secretTokens(args[end-2:])...)
	for i := 3; i < end; i++ {
		secret[i] = resp.IsWord(args[i-1], "TOKEN")
	}
	return secret
}

// taking is one MLOCK on its way.
type taking struct {
	many
	busiest  *Busiest
	named    bool        // its client has named the token
	keeps    *holds.Kept // of the connection, as grants; nil without KEEPALIVE
	push     holds.Pusher
	renewals int
	linger   time.Duration
	proto    int
	waits    time.Time // since when it waits for one of the locks; zero: it need not
	waited   time.Duration
	came     time.Time
	at       time.Time // of the grant; zero: nothing is granted
}

func mlock(c *commands.Call, all *Lockers, b *Busiest, s *syntax) {
	c.Client.Grants.Prepare()
	q := &taking{busiest: b, proto: c.Client.Proto, came: time.Now()}
	if err := q.prepare(c, all, s); err != nil {
		c.Reply(commands.ErrorReply(err))
		return
	}
	c.Task(commands.Returning(q.take), q)
}

// prepare reads the arguments and says why it cannot run.
func (q *taking) prepare(c *commands.Call, all *Lockers, s *syntax) error {
	var args arguments
	l := all.strictest(c.Args)
	if err := args.parseBehind(s, l, c.Args, behindNames(c.Args)); err != nil {
		return err
	}
	if args.lease == 0 {
		args.lease = l.Lease()
	}
	q.many = all.newMany(c, redlock.Acquire{Token: args.token, Lease: args.lease, Wait: args.wait,
		Keep: args.keep, Meta: args.meta})
	q.set.Waiting = func(p *locks.Part) {
		if q.waits.IsZero() {
			q.waits = time.Now()
		}
		q.busiest.waited(p.Name)
		q.ledger.waiting(p.Ask())
	}
	q.named, q.renewals, q.linger = args.token != "", args.renewals, args.linger
	for _, p := range q.set.Parts() {
		if err := all.allows(p.L, redlock.Write, &args); err != nil {
			return err
		}
	}
	if args.keep {
		if err := c.Client.Keepalives.Room(l, c.Client.Host(), len(q.set.Parts())); err != nil {
			return err
		}
		q.keeps, q.push = c.Client.Keepalives.Open(), c.Pusher()
	}
	return q.untold(thenAgain)
}

// take is the task of an MLOCK.
func (q *taking) take(ctx context.Context) []byte {
	ok, held, err := q.set.Take(ctx)
	if !q.waits.IsZero() {
		q.waited = time.Since(q.waits)
	}
	var left time.Duration
	if ok {
		left = q.set.Left(time.Now())
	}
	if ok && left <= 0 {
		err = q.set.GiveBack(errGrantOver)
	}
	if ok && err == nil {
		err = q.granted()
	}
	q.ended(held, err)
	switch {
	case err != nil:
		return commands.ErrorReply(err)
	case !ok:
		return resp.Null(q.proto)
	}
	return q.answer(left)
}

// granted has the holds kept alive, if that was asked for. It takes them back if a hold of the token was lost
// meanwhile.
func (q *taking) granted() error {
	var all []holds.Keeping
	for _, p := range q.set.Parts() {
		until := p.Grant.At.Add(p.Grant.TTL)
		if q.keeps == nil {
			p.L.Prolonged(p.Name, q.set.Token(), until, p.Grant.Fence)
			continue
		}
		all = append(all, holds.Keeping{L: p.L, Hold: q.ledger.keeping(keepalive.Hold{
			Name: p.Name, Token: q.set.Token(), Fence: p.Grant.Fence, Lease: q.set.Lease(), Until: until,
			Keeper: p.Keeper, Max: q.renewals, Linger: q.linger,
		}, q.who)})
	}
	letGo := func() {}
	if q.keeps != nil {
		letGo = q.keeps.KeepAll(all, q.push)
	}
	if !q.named {
		return nil
	}
	err := q.lostMeanwhile(func(*locks.Part) bool { return true })
	if err != nil {
		letGo()
		err = q.set.GiveBack(err)
	}
	return err
}

// ended counts and notes how the MLOCK ended. held is the lock that others hold.
func (q *taking) ended(held *locks.Part, err error) {
	parts := q.set.Parts()
	parts[0].L.CountSet(held == nil, err)
	switch {
	case err != nil:
	case held != nil:
		q.busiest.ended(held.Name, false)
		if !q.waits.IsZero() {
			q.ledger.timedOut(held.Ask(), q.came)
		}
	default:
		q.at = time.Now()
		for _, p := range parts {
			p.L.Granted(p.Ask(), &p.Grant, q.came, q.grants.Owner())
			q.busiest.ended(p.Name, true)
			q.grants.Forget(p.Name, "")
			q.ledger.granted(p.Ask(), p.Grant.Fence, q.came, q.at)
		}
	}
}

// Waited implements commands.Waiter.
func (q *taking) Waited() time.Duration { return q.waited }

// Arrived implements redlock.Delivery.
func (q *taking) Arrived() {}

// Lost implements redlock.Delivery: it takes back a grant that did not reach the client.
func (q *taking) Lost() {
	if q.at.IsZero() || time.Since(q.at) >= unread {
		return
	}
	for _, p := range q.set.Parts() {
		q.ledger.undone(p.Ask(), p.Grant.Fence)
	}
	q.set.Undo()
}

// answer tells of the grant, with what was left of the least lease.
func (q *taking) answer(left time.Duration) []byte {
	given := q.set.Given()
	b := redcon.AppendArray(nil, 3)
	b = redcon.AppendBulkString(b, q.set.Token())
	b = redcon.AppendArray(b, len(given))
	for _, p := range given {
		b = redcon.AppendInt(b, p.Grant.Fence)
	}
	return redcon.AppendInt(b, left.Milliseconds())
}
