// Package lock has lockproxy's own verbs: LOCK, RLOCK, WLOCK, SEMLOCK, UNLOCK, RENEW, GUARD, MLOCK,
// MUNLOCK, MRENEW and LOCKCTL. Each is a file that makes one commands.Command: its arguments as COMMAND DOCS
// shows them, the rights that it needs, which of its arguments are secret, and what it does.
//
//	Verbs --> lockVerb --> lock(Call) --> arguments.parse --> Lockers.of: the engine of that lock
//	                                                              |
//	    the client's reply <-- acquisition.Acquired <-- locks.Locker.Acquire, on the loop
//	                                  | others hold it, and WAIT was given
//	                                  v
//	                           Call.Task: locks.Locker.Wait, on a goroutine
//
// What a connection knows of its locks is in package holds: the tokens that it was granted, and the holds
// that it keeps alive. One table has the options of all verbs (args.go). The Docs of a verb say which of them
// it takes, and the syntax line of its errors is made from them.
package lock

import (
	"context"
	"sync"
	"time"

	"github.com/tidwall/redcon"

	"lockproxy/commands"
	"lockproxy/commands/holds"
	"lockproxy/internal/resp"
	"lockproxy/redlock"
	"lockproxy/redlock/keepalive"
	"lockproxy/redlock/locks"
)

// Verbs returns the lock verbs, for the engines in all.
func Verbs(all Lockers) []*commands.Command {
	l, b := &all, all.Busiest
	return []*commands.Command{
		lockVerb(l, b, "lock", redlock.Write, "Takes a lock, waiting for it if told to."),
		lockVerb(l, b, "wlock", redlock.Write,
			"Takes a lock for writing: LOCK under the name that pairs with RLOCK."),
		lockVerb(l, b, "rlock", redlock.Read, "Takes a lock for reading, which others may share."),
		semlockVerb(l, b),
		unlockVerb(l),
		renewVerb(l),
		guardVerb(l),
		mlockVerb(l, b),
		munlockVerb(l),
		mrenewVerb(l),
		lockctlVerb(l, b),
	}
}

// onKey says where the verbs have their key.
var onKey = []commands.KeySpec{{Begin: 1, Flags: []string{"RW", "access", "update"}}}

var leaseArgument = commands.Argument{Name: "lease", Type: "oneof", Optional: true,
	Arguments: []commands.Argument{
		{Name: "milliseconds", Type: "integer", Token: "PX"},
		{Name: "seconds", Type: "integer", Token: "EX"},
	}}

var fenceArgument = commands.Argument{Name: "fence", Type: "integer", Token: "FENCE", Optional: true}

var idArgument = commands.Argument{Name: "id", Type: "string", Token: "ID", Optional: true}

var keepArgument = commands.Argument{Name: "keepalive", Type: "block", Optional: true,
	Arguments: []commands.Argument{
		{Name: "keepalive", Type: "pure-token", Token: "KEEPALIVE"},
		{Name: "renewals", Type: "integer", Token: "MAX", Optional: true},
		{Name: "milliseconds", Type: "integer", Token: "LINGER", Optional: true},
	}}

// lockVerb is LOCK, WLOCK or RLOCK:
//
//	LOCK key [TOKEN token] [PX ms | EX s] [WAIT ms | TRIES n EVERY ms] [NOTIFY channel] [REENTRANT]
//	     [KEEPALIVE [MAX n] [LINGER ms]] [SYNC n] [META text] [ATLEAST ms] [BREAK] [ID id]
//
// Reply: array of token, fence, ttl in ms, count; Null: others hold the lock; with NOTIFY, QUEUED: the
// outcome comes as a message.
func lockVerb(l *Lockers, b *Busiest, name string, mode redlock.Mode, summary string) *commands.Command {
	verb := &commands.Command{
		Name: name, Arity: -2, Flags: commands.Write | commands.Blocking | commands.LockVerb, Keys: onKey,
		Route: commands.Local,
		Needs: lockRights(l), Secret: secretTokens, Check: shortName(1),
		Docs: &commands.Docs{
			Summary: summary, Since: "0.1.0", Group: "lock", Complexity: "O(1)",
			Arguments: []commands.Argument{
				{Name: "key", Type: "key"},
				{Name: "token", Type: "string", Token: "TOKEN", Optional: true},
				leaseArgument,
				{Name: "waiting", Type: "oneof", Optional: true, Arguments: []commands.Argument{
					{Name: "milliseconds", Type: "integer", Token: "WAIT"},
					{Name: "attempts", Type: "block", Arguments: []commands.Argument{
						{Name: "count", Type: "integer", Token: "TRIES"},
						{Name: "milliseconds", Type: "integer", Token: "EVERY"},
					}},
				}},
				{Name: "channel", Type: "string", Token: "NOTIFY", Optional: true},
				{Name: "reentrant", Type: "pure-token", Token: "REENTRANT", Optional: true},
				keepArgument,
				{Name: "replicas", Type: "integer", Token: "SYNC", Optional: true},
				{Name: "text", Type: "string", Token: "META", Optional: true},
				{Name: "milliseconds", Type: "integer", Token: "ATLEAST", Optional: true},
				{Name: "break", Type: "pure-token", Token: "BREAK", Optional: true},
				idArgument,
			},
		},
	}
	syntax := newSyntax(verb)
	spare := &sync.Pool{New: func() any { return new(acquisition) }}
	verb.Run = func(c *commands.Call) { lock(c, l, b, syntax, mode, spare) }
	return verb
}

// acquisition is one LOCK on its way. Most are reused: see Arrived.
type acquisition struct {
	commands.Actions
	spare   *sync.Pool
	l       *locks.Locker
	ledger  *Ledger
	busiest *Busiest
	grants  holds.Grants // of the connection when it asked: RESET replaces them
	keeps   *holds.Kept  // likewise; nil without KEEPALIVE
	kept    *keepalive.Kept
	losses  uint64       // so many holds were lost before it asked
	push    holds.Pusher // tells the client of a loss; set with KEEPALIVE
	proto   int
	args    arguments
	a       redlock.Acquire
	came    time.Time
	at      time.Time // of the grant; zero: nothing is granted
	fence   int64     // likewise
	atOnce  bool      // the first attempt was granted: no task and no engine has the acquisition
}

// unread is how long after a grant the end of the connection is taken to mean that the client has not read
// it. Later it means nothing: the token owns the lock, and its owner may be at work.
const unread = 2 * time.Second

func lock(c *commands.Call, all *Lockers, b *Busiest, s *syntax, mode redlock.Mode, spare *sync.Pool) {
	c.Client.Grants.Prepare()
	l := all.of(c.Args[1])
	q := spare.Get().(*acquisition)
	// It is large, so it is not made twice: one of spare is empty.
	q.Actions, q.spare, q.l, q.ledger, q.busiest = c.Actions, spare, l, all.Ledger, b
	q.grants, q.proto, q.came = c.Client.Grants, c.Client.Proto, time.Now()
	if err := q.args.parse(s, l, c.Args); err != nil {
		c.Reply(commands.ErrorReply(err))
		return
	}
	if err := all.allows(l, mode, &q.args); err != nil {
		c.Reply(commands.ErrorReply(err))
		return
	}
	if q.args.keep {
		if err := mayKeep(c, l, &q.args); err != nil {
			c.Reply(commands.ErrorReply(err))
			return
		}
		q.keeps, q.push = c.Client.Keepalives.Open(), c.Pusher()
	}
	q.losses = l.Losses()
	if lost, ok := q.untold(); ok {
		c.Reply(commands.ErrorReply(errLost(q.args.name, lost, thenAgain)))
		return
	}
	if !q.args.syncs {
		q.args.replicas = l.Sync()
	}
	a := &q.a
	a.Name, a.Token, a.Mode, a.ID = q.args.name, q.args.token, mode, q.args.request
	a.Lease, a.Wait, a.AtLeast = q.args.lease, q.args.wait, q.args.atLeast
	a.Reentrant, a.Break, a.Keep = q.args.reentrant, q.args.breaks, q.args.keep
	a.Permits, a.Sync, a.Meta, a.Named = q.args.permits, q.args.replicas, q.args.meta, q.args.id
	a.Keeper, a.Client = c.Client.Keepalives.Keeper(a.Name, a.Token), c.Client.Holder()
	l.Complete(a)
	if err := q.register(c, all); err != nil {
		c.Reply(commands.ErrorReply(err))
		return
	}
	q.ask()
}

// untold returns a loss that nobody who came with the token was told of. A fresh token has lost nothing.
func (q *acquisition) untold() (keepalive.Lost, bool) {
	if q.args.token == "" {
		return keepalive.Lost{}, false
	}
	return q.l.Untold(q.args.name, q.args.token, 0)
}

// ask sends the first attempt.
func (q *acquisition) ask() {
	if q.l.Follows(&q.a) {
		if answer := q.goOn(); answer != nil {
			q.Reply(answer)
		}
		return
	}
	q.l.Acquire(q, &q.a, q)
}

// goOn has the LOCK wait: beside the client, which is answered that it does, or as a task that answers.
func (q *acquisition) goOn() (answer []byte) {
	q.busiest.waited(q.a.Name)
	q.ledger.waiting(&q.a)
	if q.args.notice != nil {
		q.Connection().Aside(q.await)
		return replyQueued
	}
	q.Task(q.wait, q)
	return nil
}

// Acquired implements redlock.Acquirer: it answers the client if the first attempt decides, and otherwise
// goes on waiting.
func (q *acquisition) Acquired(g redlock.Grant, ok bool, err error) []byte {
	if ok || err != nil || q.Gone() {
		q.unregister()
	}
	if q.a.Broke {
		q.broke()
	}
	switch {
	case err != nil:
		q.ended(err)
		if !redlock.Refused(err) {
			q.undo() // the attempt may have run
		}
		return commands.ErrorReply(err)
	case ok && q.a.Sync > 0:
		unconfirmed := g // keeps most grants off the heap
		q.Task(commands.Returning(func(ctx context.Context) []byte { return q.confirm(ctx, unconfirmed) }), q)
		return nil
	case ok:
		q.atOnce = true
		return q.told(q.Buffer(), g, g)
	case q.args.wait == 0 && q.args.tries < 2 && q.args.notice == nil:
		q.ended(nil)
		return resp.Null(q.proto)
	case q.Gone():
		q.ended(nil)
		q.undo()
		return resp.Null(q.proto)
	}
	return q.goOn()
}

// broke notes that the LOCK has ended holds of others, whatever else becomes of it.
func (q *acquisition) broke() {
	q.l.TellBroken(q.a.Name, q.a.Client.Addr, q.a.Client.User)
	q.ledger.broken(q.a.Name, q.a.Token, q.a.Client, q.came)
}

// wait is the task of a LOCK that has to wait. A grant that comes with an UNLOCK is answered at once, on the
// loop, and not first brought to this goroutine.
func (q *acquisition) wait(ctx context.Context, answer func(end func() []byte)) {
	defer q.watchSelfWait()()
	handed := false
	if q.a.Sync == 0 {
		q.a.Handed = func(g redlock.Grant) {
			handed = true
			answer(func() []byte { return q.told(q.Buffer(), g, g) })
		}
	}
	g, ok, err := q.waited(ctx)
	if handed {
		return
	}
	reply := q.outcome(ctx, g, ok, err)
	answer(func() []byte { return reply })
}

// outcome is the answer to a LOCK that has waited.
func (q *acquisition) outcome(ctx context.Context, g redlock.Grant, ok bool, err error) []byte {
	switch {
	case err != nil:
		q.ended(err)
		return commands.ErrorReply(err)
	case !ok:
		q.ended(nil)
		q.ledger.timedOut(&q.a, q.came)
		return resp.Null(q.proto)
	}
	return q.confirm(ctx, g)
}

// waited returns when the LOCK has waited, or made its attempts.
func (q *acquisition) waited(ctx context.Context) (g redlock.Grant, ok bool, err error) {
	if q.args.wait > 0 {
		return q.l.Wait(ctx, &q.a)
	}
	return q.l.Try(ctx, &q.a, q.args.tries-1, q.args.every)
}

// confirm is the task of a LOCK that was granted but must reach replicas. Confirm takes back a grant that
// does not.
func (q *acquisition) confirm(ctx context.Context, g redlock.Grant) []byte {
	confirmed, err := q.l.Confirm(ctx, &q.a, g)
	if err != nil {
		q.ended(err)
		return commands.ErrorReply(err)
	}
	return q.told(nil, g, confirmed)
}

// told is the answer to a LOCK that was granted g: it tells of the ttl in confirmed. The ttl of one that may
// wait is what is left now, for its client does not know when the grant was made. Nobody is told of a grant
// whose lease may be over.
func (q *acquisition) told(dst []byte, g, confirmed redlock.Grant) []byte {
	now := time.Now()
	if q.args.wait > 0 || q.args.tries > 1 {
		confirmed.TTL, confirmed.At = confirmed.Left(now), now
	}
	if confirmed.TTL <= now.Sub(confirmed.At) {
		q.ended(errGrantOver)
		q.undo()
		return commands.ErrorReply(q.a.MayHold(errGrantOver))
	}
	if err := q.keep(g, q.args.renewals); err != nil {
		q.ended(err)
		return commands.ErrorReply(err)
	}
	q.granted(&g, now)
	return appendGrant(dst, confirmed)
}

// errGrantOver is for a grant of whose lease nothing is sure to be left when its client can be told.
var errGrantOver = redlock.ReplyError("TRYAGAIN the lock was granted, but its lease may be over already, " +
	"for the servers took so long to answer: ask again, or for a longer lease")

// keep has the hold kept alive, if that was asked for, with so many renewals at most; 0: as many as it takes.
// It takes the grant back if a hold of the token was lost meanwhile: the client may take both for one.
func (q *acquisition) keep(g redlock.Grant, renewals int) error {
	until := g.At.Add(g.TTL)
	q.fence = g.Fence
	switch {
	case q.args.keep:
		q.kept = q.keeps.Keep(q.l, q.ledger.keeping(keepalive.Hold{
			Name: q.a.Name, Token: q.a.Token, Fence: g.Fence, Lease: q.args.lease, Until: until,
			Keeper: q.a.Keeper, Max: renewals, Linger: q.args.linger,
		}, q.a.Client), q.push)
	case q.args.token != "": // it may already be kept alive
		q.l.Prolonged(q.a.Name, q.a.Token, until, g.Fence)
	}
	if q.args.token != "" {
		if err := lostMeanwhile(q.l, q.losses, q.a.Name, q.a.Token, 0); err != nil {
			q.letGo()
			return q.a.MayHold(err)
		}
	}
	return nil
}

// granted counts and notes a grant, before the client is told.
func (q *acquisition) granted(g *redlock.Grant, now time.Time) {
	q.l.Granted(&q.a, g, q.came, q.grants.Owner())
	if q.a.Mode == redlock.Write { // what this connection held before holds nothing any more
		q.grants.Forget(q.a.Name, "")
	}
	q.l.CountAcquire(q.a.Mode, true, nil)
	q.busiest.ended(q.a.Name, true)
	q.ledger.granted(&q.a, q.fence, q.came, now)
	if q.args.notice == nil {
		q.at = now
	}
}

// ended counts and notes a LOCK that is not granted.
func (q *acquisition) ended(err error) {
	q.l.Refused(&q.a)
	q.l.CountAcquire(q.a.Mode, false, err)
	if err == nil {
		q.busiest.ended(q.a.Name, false)
	}
}

// letGo gives up a grant that relied on a hold that was lost.
func (q *acquisition) letGo() {
	if q.kept != nil {
		q.kept.Release()
	} else {
		q.undo()
	}
}

// Lost implements redlock.Delivery: it takes back a grant that did not reach the client. That does not
// linger.
func (q *acquisition) Lost() {
	if !q.at.IsZero() && time.Since(q.at) < unread {
		q.ledger.undone(&q.a, q.fence)
		if q.kept != nil {
			q.kept.Forget()
		}
		q.undo()
	}
}

// Arrived implements redlock.Delivery: nothing is taken back any more, so the acquisition can be reused.
func (q *acquisition) Arrived() {
	if q.atOnce && !q.at.IsZero() {
		spare := q.spare
		*q = acquisition{}
		spare.Put(q)
	}
}

func (q *acquisition) undo() { q.l.Undo(&q.a) }

func appendGrant(dst []byte, g redlock.Grant) []byte {
	dst = redcon.AppendArray(dst, 4)
	dst = redcon.AppendBulkString(dst, g.Token)
	dst = redcon.AppendInt(dst, g.Fence)
	dst = redcon.AppendInt(dst, g.TTL.Milliseconds())
	return redcon.AppendInt(dst, g.Count)
}
