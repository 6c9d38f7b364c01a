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
func mlockVerb(l *Lockers) *commands.Command {
	verb := l.manyVerb("mlock", -3, commands.Blocking, commands.Docs{
		Summary:   "Takes several locks, all of them or none, waiting for them if told to.",
		Arguments: takes("TOKEN", "lease", "WAIT", "keepalive", "META"),
	}, func(c *commands.Call, s *syntax) error { return mlock(c, l, s) })
	verb.Secret = mlockSecrets
	return verb
}

// mlockSecrets marks the token, also where numkeys is too high, so that it stands among the names. Then
// behindNames takes it for a name. Only the word TOKEN in front of it tells it apart.
func mlockSecrets(args [][]byte, secret []bool) {
	// secretTokens passes over the first two words, so it begins that much earlier.
	end := max(behindNames(args), 2) // 0: the names have no clear end, so all words are looked at
	secretTokens(args[end-2:], secret[end-2:])
	for i := 3; i < end; i++ {
		secret[i] = resp.IsWord(args[i-1], "TOKEN")
	}
}

// taking is one MLOCK on its way. It belongs to the loop until its task begins, then to the task, and to the
// loop again when that has answered.
type taking struct {
	many
	args   arguments
	keeps  *holds.KeptSet // of the connection, as grants; nil without KEEPALIVE
	push   holds.Pusher
	proto  int
	waits  time.Time // since when it waits for one of the locks; zero: it need not
	waited time.Duration
	came   time.Time
	at     time.Time // of the grant; zero: nothing is granted
	forget func()    // has the holds renewed no more; nil without KEEPALIVE
}

// It is a task from the start: several locks may be at several masters, and are taken one after the other.
func mlock(c *commands.Call, all *Lockers, s *syntax) error {
	c.Client.Grants.Prepare()
	q := &taking{proto: c.Client.Proto, came: time.Now()}
	if err := q.prepareSet(c, all, s); err != nil {
		return err
	}
	c.Task(commands.Returning(q.takeTask), q)
	return nil
}

// prepareSet reads the arguments and says why it cannot run. After an error nothing is sent.
func (q *taking) prepareSet(c *commands.Call, all *Lockers, s *syntax) error {
	l, err := all.parseMany(&q.args, s, c.Args, behindNames(c.Args))
	if err != nil {
		return err
	}
	q.many = all.newMany(c, q.args.Acquire)
	// called by Take, on its goroutine
	q.set.Waiting = func(p *locks.SetPart) {
		if q.waits.IsZero() {
			q.waits = time.Now()
		}
		q.all.Busiest.addCounts(p.Name, Count{Waits: 1})
		q.all.Ledger.noteWaiting(p.Ask())
	}
	for _, p := range q.set.Parts() {
		if err := all.allows(p.L, redlock.Write, &q.args); err != nil {
			return err
		}
	}
	if q.args.Keep {
		more := 0 // to take over those that this proxy keeps already makes no more of them
		for _, p := range q.set.Parts() {
			if p.L.KeeperOf(p.Name, q.set.Token()) == "" {
				more++
			}
		}
		if more > 0 {
			if err := c.Client.Keepalives.Room(l, c.Client.Host(), more); err != nil {
				return err
			}
		}
		q.keeps, q.push = c.Client.Keepalives.Open(), c.Pusher()
	}
	// last, since a loss is told once
	return q.untold(thenAgain)
}

// takeTask is the task of an MLOCK. Take has the locks, or none. What was waited for counts from the first
// lock that had to be waited for.
func (q *taking) takeTask(ctx context.Context) []byte {
	ok, held, err := q.set.Take(ctx)
	if !q.waits.IsZero() {
		q.waited = time.Since(q.waits)
	}
	var left time.Duration
	if ok {
		left = q.set.Left(time.Now())
	}
	// As with LOCK, nobody is told of a grant that may be over.
	if ok && left <= 0 {
		err = q.set.GiveBack(errGrantOver)
	}
	if ok && err == nil {
		err = q.keepHolds()
	}
	q.noteOutcome(held, err)
	switch {
	case err != nil:
		return commands.ErrorReply(err)
	case !ok:
		return resp.Null(q.proto)
	}
	return q.setReply(left)
}

// keepHolds has the holds kept alive, if that was asked for. It takes them back if a hold of the token was
// lost meanwhile. Without KEEPALIVE, holds of the token that are kept alive already go on with the new lease.
func (q *taking) keepHolds() error {
	var all []holds.Keeping
	for _, p := range q.set.Parts() {
		until := p.Grant.At.Add(p.Grant.TTL)
		if q.keeps == nil {
			p.L.Prolonged(p.Name, q.set.Token(), until, p.Grant.Fence)
			continue
		}
		all = append(all, holds.Keeping{L: p.L, Hold: q.all.Ledger.watchHold(keepalive.Hold{
			Name: p.Name, Token: q.set.Token(), Fence: p.Grant.Fence, Lease: q.set.Lease(), Until: until,
			Keeper: p.Keeper, Terms: q.args.terms,
		}, q.who)})
	}
	letGo := func() {}
	if q.keeps != nil {
		letGo, q.forget = q.keeps.KeepAll(all, q.push)
	}
	// A token that was made just now had no holds to lose.
	if q.args.Token == "" {
		return nil
	}
	err := q.lostMeanwhile(func(*locks.SetPart) bool { return true })
	if err != nil {
		letGo()
		err = q.set.GiveBack(err)
	}
	return err
}

// noteOutcome counts and notes how the MLOCK ended. held is the lock that others hold. The set counts once,
// as one MLOCK, while each of its locks counts for itself. An error counts nowhere else.
func (q *taking) noteOutcome(held *locks.SetPart, err error) {
	parts := q.set.Parts()
	parts[0].L.CountOutcome(held == nil, err, locks.SetsGranted, locks.SetsRefused, locks.SetsFailed)
	switch {
	case err != nil:
	case held != nil:
		q.all.Busiest.addCounts(held.Name, Count{Refusals: 1})
		if !q.waits.IsZero() {
			q.all.Ledger.noteTimedOut(held.Ask(), q.came)
		}
	default:
		q.at = time.Now()
		for _, p := range parts {
			p.L.Granted(p.Ask(), &p.Grant, q.came, q.grants.Owner())
			q.all.Busiest.addCounts(p.Name, Count{Grants: 1})
			q.grants.Forget(p.Name, "")
			q.all.Ledger.noteGranted(p.Ask(), p.Grant.Fence, q.came, q.at)
		}
	}
}

// Waited implements commands.LockWaiter. How long it took to ask Redis is not among it.
func (q *taking) Waited() time.Duration { return q.waited }

// Arrived implements redlock.Delivery.
func (q *taking) Arrived() {}

// Lost implements redlock.Delivery: it takes back a grant that did not reach the client. See
// acquisition.Lost: after two seconds it does nothing.
func (q *taking) Lost() {
	if q.at.IsZero() || time.Since(q.at) >= unread {
		return
	}
	for _, p := range q.set.Parts() {
		q.all.Ledger.noteUndone(p.Ask(), p.Grant.Fence)
	}
	if q.forget != nil { // no renewal must come in between
		q.forget()
	}
	q.set.Undo()
}

// setReply tells of the grant, with what was left of the least lease. The fences are in the order in which
// the client has named the locks, one for each name, also if two names mean one lock.
func (q *taking) setReply(left time.Duration) []byte {
	given := q.set.Given()
	b := redcon.AppendArray(nil, 3)
	b = redcon.AppendBulkString(b, q.set.Token())
	b = redcon.AppendArray(b, len(given))
	for _, p := range given {
		b = redcon.AppendInt(b, p.Grant.Fence)
	}
	return redcon.AppendInt(b, left.Milliseconds())
}
