// Package lock has lockproxy's own verbs: LOCK, RLOCK, WLOCK, SEMLOCK, UNLOCK, RENEW, GUARD, MLOCK,
// MUNLOCK, MRENEW and LOCKCTL. Each is a file that makes one commands.Command: its arguments as COMMAND DOCS
// shows them, the rights that it needs, which of its arguments are secret, and what it does.
//
//	Verbs --> lockVerb --> lock(Call) --> parseArgs, with the bounds of Lockers.engineOf: its engine
//	                                                              |
//	    the client's reply <-- acquisition.Acquired <-- locks.Locker.Acquire, on the loop
//	                                  | others hold it, and WAIT was given
//	                                  v
//	                           Call.Task: locks.Locker.Wait, on a goroutine
//
// What a connection knows of its locks is in package holds: the tokens that it was granted, and the holds
// that it keeps alive. One table has the options of all verbs (args.go): what a verb takes is a list of their
// words, from which its Docs, the parser and the syntax line of its errors are made.
package lock

import (
	"context"
	"slices"
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

// Verbs returns the lock verbs, for the engines in all. Each Table gets copies of them.
func Verbs(all Lockers) []*commands.Command {
	l := &all
	return []*commands.Command{
		lockVerb(l, "lock", redlock.Write, "Takes a lock, waiting for it if told to."),
		lockVerb(l, "wlock", redlock.Write,
			"Takes a lock for writing: LOCK under the name that pairs with RLOCK."),
		lockVerb(l, "rlock", redlock.Read, "Takes a lock for reading, which others may share."),
		lockVerb(l, "semlock", redlock.Permit,
			"Takes one of a number of permits, waiting for it if told to."),
		unlockVerb(l),
		renewVerb(l),
		guardVerb(l),
		mlockVerb(l),
		munlockVerb(l),
		mrenewVerb(l),
		lockctlVerb(l),
	}
}

// since is the version of lockproxy that has all verbs.
const since = "0.1.0"

// newVerb makes a verb about the lock that its first argument names. Those about others change what differs.
// run gets the syntax that is made of docs. The key spec is for clients that go by COMMAND: it finds the name
// of the lock, and not its key in Redis, which has a prefix (keyOf).
func (l *Lockers) newVerb(
	name string, arity int, flags commands.Flags, docs commands.Docs, run runner,
) *commands.Command {
	docs.Since, docs.Group = since, "lock"
	verb := &commands.Command{
		Row: commands.Row{Name: name, Arity: arity, Flags: flags | commands.LockVerb,
			Route: commands.Local, Secret: secretTokens},
		Keys:  []commands.KeySpec{{Begin: 1, Flags: []string{"RW", "access", "update"}}},
		Needs: func(args [][]byte) []commands.Right { return []commands.Right{writeRight(l.keyOf(args[1]))} },
		Check: shortName(1), Docs: &docs,
	}
	s := newSyntax(verb)
	verb.Run = func(c *commands.Call) { run.answerCall(c, s) }
	return verb
}

// runner is what a verb does. It answers the command, or returns why it cannot run. It must not do both, and
// it runs on the loop of the client.
type runner func(c *commands.Call, s *syntax) error

// answerCall runs the verb, and answers with the error if there is one.
func (run runner) answerCall(c *commands.Call, s *syntax) {
	if err := run(c, s); err != nil {
		c.Reply(commands.ErrorReply(err))
	}
}

// keyArgument is the name of a lock.
var keyArgument = commands.Argument{Name: "key", Type: "key"}

// lockVerb is LOCK, WLOCK or RLOCK, and SEMLOCK, which needs PERMITS and has neither REENTRANT nor BREAK:
//
//	LOCK key [TOKEN token] [PX ms | EX s] [WAIT ms | TRIES n EVERY ms] [NOTIFY channel] [REENTRANT]
//	     [KEEPALIVE [MAX n] [LINGER ms]] [SYNC n] [META text] [ATLEAST ms] [BREAK] [ID id]
//
// Reply: array of token, fence, ttl in ms, count; Null: others hold the lock, or no permit is free; with
// NOTIFY, QUEUED: the outcome comes as a message; -PERMITS: others hold or wait for permits of it with
// another n. LOCK and WLOCK are the same.
func lockVerb(l *Lockers, name string, mode redlock.Mode, summary string) *commands.Command {
	arity, complexity, key := -2, "O(1)", []commands.Argument{keyArgument}
	words := []string{"TOKEN", "lease", "waiting", "NOTIFY", "REENTRANT", "keepalive", "SYNC", "META",
		"ATLEAST", "BREAK", "ID"}
	if mode == redlock.Permit {
		arity, complexity = -4, "O(1); O(N) if a lease has ended, N being the permits"
		key = append(key, shown("PERMITS"))
		words = slices.DeleteFunc(words,
			func(word string) bool { return word == "REENTRANT" || word == "BREAK" })
	}
	spare := &sync.Pool{New: func() any { return new(acquisition) }}
	verb := l.newVerb(name, arity, commands.Write|commands.Blocking, commands.Docs{
		Summary: summary, Complexity: complexity, Arguments: append(key, takes(words...)...),
	}, func(c *commands.Call, s *syntax) error { return lock(c, l, s, mode, spare) })
	verb.Needs = lockRights(l)
	return verb
}

// acquisition is one LOCK on its way. Most are reused: see Arrived. It is on the loop until it has to wait,
// and then with its task, or the goroutine of NOTIFY. Only the answer to a grant that is handed over is made
// on the loop again: its task does nothing after that.
type acquisition struct {
	commands.Actions
	spare  *sync.Pool
	l      *locks.Locker
	all    *Lockers
	grants holds.Grants   // of the connection when it asked: RESET replaces them
	keeps  *holds.KeptSet // likewise; nil without KEEPALIVE
	kept   *keepalive.Kept
	losses uint64       // so many holds were lost before it asked, for lostMeanwhile
	push   holds.Pusher // tells the client of a loss; set with KEEPALIVE
	proto  int
	arguments
	lease  time.Duration // that the client gave, for renewals; 0: none
	came   time.Time
	at     time.Time // of the grant; zero: nothing is granted
	fence  int64     // likewise
	atOnce bool      // the first attempt was granted: no task and no engine has the acquisition
}

// unread is how long after a grant the end of the connection is taken to mean that the client has not read
// it. Later it means nothing: the token owns the lock, and its owner may be at work.
const unread = 2 * time.Second

// lock begins a LOCK. After an error nothing is sent, and the acquisition is left to the garbage collector.
func lock(c *commands.Call, all *Lockers, s *syntax, mode redlock.Mode, spare *sync.Pool) error {
	c.Client.Grants.Prepare()
	q := spare.Get().(*acquisition)
	// It is large, so it is not made twice: one of spare is empty.
	q.Actions, q.spare, q.l, q.all = c.Actions, spare, all.engineOf(c.Args[1]), all
	// RESET may change both of the client while it waits.
	q.grants, q.proto, q.came = c.Client.Grants, c.Client.Proto, time.Now()
	if err := q.prepareAcquire(c, s, mode); err != nil {
		return err
	}
	q.askEngine()
	return nil
}

// prepareAcquire reads the arguments and says why the LOCK cannot run. The order matters: what costs nothing
// to refuse comes first, and registerWait, which takes room that must be given back, comes last.
func (q *acquisition) prepareAcquire(c *commands.Call, s *syntax, mode redlock.Mode) error {
	l := q.l
	if err := q.parseArgs(s, l, c.Args); err != nil {
		return err
	}
	if err := q.all.allows(l, mode, &q.arguments); err != nil {
		return err
	}
	if q.Keep {
		if err := mayKeep(c, l, &q.arguments); err != nil {
			return err
		}
		q.keeps, q.push = c.Client.Keepalives.Open(), c.Pusher()
	}
	q.losses = l.Losses()
	// Asked only now, because a loss is told once: what fails before must not use it up.
	if err := untold(l, q.Name, q.Token, 0, thenAgain); err != nil {
		return err
	}
	if !q.syncs {
		q.Sync = l.Sync()
	}
	// Complete makes Lease the default if none is given. Renewals use the default of their time then.
	q.Mode, q.lease = mode, q.Lease
	q.Keeper, q.Client = c.Client.Keepalives.Keeper(q.Name, q.Token), c.Client.Holder()
	l.Complete(&q.Acquire)
	return q.registerWait(c)
}

// askEngine sends the first attempt. If others of this proxy wait for the lock already, it need not ask
// before they do: it waits at once.
func (q *acquisition) askEngine() {
	if q.l.Follows(&q.Acquire) {
		if answer := q.goOn(); answer != nil {
			q.Reply(answer)
		}
		return
	}
	q.l.Acquire(q, &q.Acquire, q)
}

// goOn has the LOCK wait: beside the client, which is answered that it does, or as a task that answers. It
// returns nil if the task answers.
func (q *acquisition) goOn() (answer []byte) {
	q.all.Busiest.addCounts(q.Name, Count{Waits: 1})
	q.all.Ledger.noteWaiting(&q.Acquire)
	if q.notice != nil {
		q.Connection().Aside(q.awaitBeside)
		return replyQueued
	}
	q.Task(q.waitTask, q)
	return nil
}

// Acquired implements redlock.Acquirer: it answers the client if the first attempt decides, and otherwise
// goes on waiting. It runs on the loop, once for each first attempt. With SYNC a grant counts only when
// replicas have it, for which a task waits.
func (q *acquisition) Acquired(g redlock.Grant, ok bool, err error) []byte {
	// It will not wait, so its room is free again, and q.notice is nil from here on.
	if ok || err != nil || q.Gone() {
		q.unregisterWait()
	}
	if q.Broke {
		q.noteBroken()
	}
	switch {
	case err != nil:
		q.noteRefusal(err)
		if !redlock.Refused(err) {
			q.undoAcquire() // the attempt may have run
		}
		return commands.ErrorReply(err)
	case ok && q.Sync > 0:
		unconfirmed := g // keeps most grants off the heap
		q.Task(commands.Returning(
			func(ctx context.Context) []byte { return q.confirmGrant(ctx, unconfirmed) }), q)
		return nil
	case ok:
		q.atOnce = true
		return q.answerGrant(q.Buffer(), g, g)
	// Others hold it, and nothing of this LOCK is in the queue.
	case q.Wait == 0 && q.tries < 2 && q.notice == nil:
		q.noteRefusal(nil)
		return resp.Null(q.proto)
	// It stands in the queue, where nobody wants it any more.
	case q.Gone():
		q.noteRefusal(nil)
		q.undoAcquire()
		return resp.Null(q.proto)
	}
	return q.goOn()
}

// noteBroken notes that the LOCK has ended holds of others, whatever else becomes of it. Even a LOCK that
// fails may have broken the lock: the script frees it first.
func (q *acquisition) noteBroken() {
	q.l.TellBroken(q.Name, q.Client.Addr, q.Client.User)
	q.all.Ledger.noteBroken(q.Name, q.Token, q.Client, q.came)
}

// waitTask is the task of a LOCK that has to wait. A grant that comes with an UNLOCK is answered at once, on
// the loop, and not first brought to this goroutine. If Handed has answered, what is returned here is too
// late and means nothing. A grant for which replicas are waited for is not handed over: it is no grant yet.
func (q *acquisition) waitTask(ctx context.Context, answer func(end func() []byte)) {
	defer q.watchSelfWait()()
	// Wait returns behind Handed, so this needs no lock.
	handed := false
	if q.Sync == 0 {
		q.Handed = func(g redlock.Grant) {
			handed = true
			answer(func() []byte { return q.answerGrant(q.Buffer(), g, g) })
		}
	}
	g, ok, err := q.waitOrTry(ctx)
	if handed {
		return
	}
	reply := q.waitReply(ctx, g, ok, err)
	answer(func() []byte { return reply })
}

// waitReply is the answer to a LOCK that has waited. It runs on the goroutine of the task. Null says that the
// time is over.
func (q *acquisition) waitReply(ctx context.Context, g redlock.Grant, ok bool, err error) []byte {
	switch {
	case err != nil:
		q.noteRefusal(err)
		return commands.ErrorReply(err)
	case !ok:
		q.noteRefusal(nil)
		q.all.Ledger.noteTimedOut(&q.Acquire, q.came)
		return resp.Null(q.proto)
	}
	return q.confirmGrant(ctx, g)
}

// waitOrTry returns when the LOCK has waited, or made its attempts. TRIES counts the first attempt too, which
// was made on the loop.
func (q *acquisition) waitOrTry(ctx context.Context) (g redlock.Grant, ok bool, err error) {
	if q.Wait > 0 {
		return q.l.Wait(ctx, &q.Acquire)
	}
	return q.l.Try(ctx, &q.Acquire, q.tries-1, q.every)
}

// confirmGrant is the task of a LOCK that was granted but must reach replicas. Confirm takes back a grant
// that does not. g is the grant as it was made, with the whole lease. It blocks until the replicas have it,
// or SyncTimeout.
func (q *acquisition) confirmGrant(ctx context.Context, g redlock.Grant) []byte {
	confirmed, err := q.l.Confirm(ctx, &q.Acquire, g)
	if err != nil {
		q.noteRefusal(err)
		return commands.ErrorReply(err)
	}
	return q.answerGrant(nil, g, confirmed)
}

// answerGrant is the answer to a LOCK that was granted g: it tells of the ttl in confirmed. The ttl of one
// that may wait is what is left now, for its client does not know when the grant was made. Nobody is told of
// a grant whose lease may be over. It is called on the loop for a grant at once or with an UNLOCK, otherwise
// on the goroutine of the task. dst is an empty buffer, or nil. The order is that of a promise: kept alive
// first, then noted, then told.
func (q *acquisition) answerGrant(dst []byte, g, confirmed redlock.Grant) []byte {
	now := time.Now()
	if q.Wait > 0 || q.tries > 1 {
		confirmed.TTL, confirmed.At = confirmed.Left(now), now
	}
	if confirmed.TTL <= now.Sub(confirmed.At) {
		q.noteRefusal(errGrantOver)
		q.undoAcquire()
		return commands.ErrorReply(q.MayHold(errGrantOver))
	}
	if err := q.keepHold(g); err != nil {
		q.noteRefusal(err)
		return commands.ErrorReply(err)
	}
	q.noteGrant(&g, now)
	return appendGrant(dst, confirmed)
}

// errGrantOver is for a grant of whose lease nothing is sure to be left when its client can be told.
var errGrantOver = redlock.ReplyError("TRYAGAIN the lock was granted, but its lease may be over already, " +
	"for the servers took so long to answer: ask again, or for a longer lease")

// keepHold has the hold kept alive, if that was asked for. It takes the grant back if a hold of the token was
// lost meanwhile: the client may take both for one. A hold of the token that is kept alive already goes on:
// its Renewer hears how long it lasts now.
func (q *acquisition) keepHold(g redlock.Grant) error {
	until := g.At.Add(g.TTL)
	q.fence = g.Fence
	switch {
	case q.Keep:
		q.kept = q.keeps.Keep(q.l, q.all.Ledger.watchHold(keepalive.Hold{
			Name: q.Name, Token: q.Token, Fence: g.Fence, Lease: q.lease, Until: until,
			Keeper: q.Keeper, Terms: q.terms,
		}, q.Client), q.push)
	case !q.Fresh: // it may already be kept alive
		q.l.Prolonged(q.Name, q.Token, until, g.Fence)
	}
	if !q.Fresh {
		if err := lostMeanwhile(q.l, q.losses, q.Name, q.Token, 0); err != nil {
			// The hold is given up and not only forgotten: its client will begin anew.
			if q.kept != nil {
				q.kept.Release()
			} else {
				q.undoAcquire()
			}
			return q.MayHold(err)
		}
	}
	return nil
}

// noteGrant counts and notes a grant, before the client is told. Each Acquire is followed by one Granted or
// Refused of its Locker: this has the first, noteRefusal the other.
func (q *acquisition) noteGrant(g *redlock.Grant, now time.Time) {
	q.l.Granted(&q.Acquire, g, q.came, q.grants.Owner())
	if q.Mode == redlock.Write { // what this connection held before holds nothing any more
		q.grants.Forget(q.Name, "")
	}
	q.l.CountAcquire(q.Mode, true, nil)
	q.all.Busiest.addCounts(q.Name, Count{Grants: 1})
	q.all.Ledger.noteGranted(&q.Acquire, q.fence, q.came, now)
	// With NOTIFY the connection may end without harm: the message tells the client.
	if q.notice == nil {
		q.at = now
	}
}

// noteRefusal counts and notes a LOCK that is not granted. err is nil if others hold the lock. An error is
// none of a busy lock, so Busiest does not count it.
func (q *acquisition) noteRefusal(err error) {
	q.l.Refused(&q.Acquire)
	q.l.CountAcquire(q.Mode, false, err)
	if err == nil {
		q.all.Busiest.addCounts(q.Name, Count{Refusals: 1})
	}
}

// Lost implements redlock.Delivery: it takes back a grant that did not reach the client. That does not
// linger. After two seconds the hold stays until its lease is over, or, with KEEPALIVE, until the
// connection's end frees it.
func (q *acquisition) Lost() {
	if !q.at.IsZero() && time.Since(q.at) < unread {
		q.all.Ledger.noteUndone(&q.Acquire, q.fence)
		// undoAcquire frees the hold, and no renewal must come in between.
		if q.kept != nil {
			q.kept.Forget()
		}
		q.undoAcquire()
	}
}

// Arrived implements redlock.Delivery: nothing is taken back any more, so the acquisition can be reused. One
// that has waited is not: its task or its engine may still look at it.
func (q *acquisition) Arrived() {
	if q.atOnce && !q.at.IsZero() {
		spare := q.spare
		*q = acquisition{}
		spare.Put(q)
	}
}

// undoAcquire takes back whatever the LOCK has left in Redis, in the background: a grant, or a place in the
// queue.
func (q *acquisition) undoAcquire() { q.l.Undo(&q.Acquire) }

// appendGrant appends the reply to a LOCK that was granted. The ttl is in milliseconds.
func appendGrant(dst []byte, g redlock.Grant) []byte {
	dst = redcon.AppendArray(dst, 4)
	dst = redcon.AppendBulkString(dst, g.Token)
	return resp.AppendInts(dst, g.Fence, g.TTL.Milliseconds(), g.Count)
}
