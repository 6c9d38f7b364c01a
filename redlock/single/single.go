// Package single keeps locks on one Redis, a Sentinel group or a cluster, each lock on the master of its
// slot.
//
//	Acquire --> acquire.lua --> granted
//	                       \-> others hold it --> Null
//	                       \-> queued (Wait) --> woken, or its time --> acquire.lua ...
//	Release --> release.lua --> the lock goes to the first in the queue: its id and its grant are in the reply
//	Undo    --> cancel.lua, again and again until it has run
//
// One script decides each transition, and the queue is part of the lock, so that an Engine has little state:
// who waits here (package wait), which master had a slot (grace.go), what is still to be taken back (undo.go,
// late.go). An attempt of a client goes from its loop (Caller.SendHome), all others by the Upstream.
package single

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"time"

	"lockproxy/internal/subscription"
	"lockproxy/redlock"
	"lockproxy/redlock/scripts"
	"lockproxy/redlock/wait"
)

// Upstream reaches the Redis that keeps the locks. Safe for concurrent use.
type Upstream interface {
	// Do runs req, one whole command, on the master of slot and returns the
	// node's RESP2 reply, error replies included. Redirects, lost scripts and
	// fail-over are dealt with inside, but not TRYAGAIN. resend: req may be sent again when its
	// reply was lost. An error means that nobody could be asked, or that it is not
	// known whether req has run.
	Do(ctx context.Context, slot int, req []byte, resend bool) (reply []byte, err error)
	// Synced runs req, which must be idempotent, as Do does and then waits on that master
	// until replicas of its replicas have everything that it had done by then, or
	// timeout is over. acked is how many have.
	Synced(
		ctx context.Context, slot int, req []byte, replicas int, timeout time.Duration,
	) (reply []byte, acked int, err error)
	// Subscribe listens on channel, which belongs to slot, until cancel is
	// called. It returns when the subscription is confirmed. notify is called in order
	// and must not block.
	Subscribe(ctx context.Context, slot int, channel string,
		notify func(subscription.Event)) (cancel func(), err error)
	// Masters is how many masters there are now.
	Masters() int
	// Master names the master that has slot now; "" if nobody knows it.
	Master(slot int) string
	// DoMaster is Do for the i-th master, in the order of their lowest slots.
	DoMaster(ctx context.Context, i int, req []byte, resend bool) (reply []byte, err error)
	// Sharded says that messages go by SPUBLISH and not by PUBLISH.
	Sharded() bool
	// Moving says that keys of slot are at two nodes, as far as that is known.
	Moving(slot int) bool
}

// Engine is the engine of locks that one Redis keeps, or a cluster, each lock on the master of its slot. One
// script decides each transition, and the queue is part of the lock.
type Engine struct {
	upstream Upstream
	names    *redlock.Names
	o        Options
	waiters  *wait.Redis
	grace    grace
	late     lateness
	fences   *lastFences
	turns    turns // of what is asked in steps

	// What goes on when nobody waits for it ends with ctx.
	ctx    context.Context
	cancel context.CancelFunc
	work   sync.WaitGroup // that close waits for

	firsts   sync.Pool // of *firstAttempt
	releases sync.Pool // of *sentRelease
}

// Options are those of an Engine.
type Options struct {
	MaxQueue      int           // waiters of one lock
	MaxReaders    int           // readers of one lock
	FailoverGrace time.Duration // a new master grants nothing new for that; 0: it does
	SyncTimeout   time.Duration // replicas are waited for so long
	Log           *slog.Logger
}

// New is an Engine that reaches its Redis by u.
func New(u Upstream, names *redlock.Names, o Options) *Engine {
	e := &Engine{upstream: u, names: names, o: o, fences: newLastFences()}
	e.grace.period = o.FailoverGrace
	e.waiters = wait.NewRedis(e, names, o.Log)
	e.ctx, e.cancel = context.WithCancel(context.Background())
	return e
}

// Acquire implements locks.engine.
func (e *Engine) Acquire(by redlock.Caller, a *redlock.Acquire, to redlock.Acquirer) {
	first, _ := e.firsts.Get().(*firstAttempt)
	if first == nil {
		first = new(firstAttempt)
	}
	*first = firstAttempt{e, by, a, to, time.Now()}
	slot, req := e.acquireRequest(by.Room(), &scripts.Acquire, a)
	by.SendHome(slot, req, true, first, to)
}

// firstAttempt is an Acquire on its way. It is used again once it has its reply, which comes once.
type firstAttempt struct {
	e    *Engine
	by   redlock.Caller
	a    *redlock.Acquire
	to   redlock.Acquirer
	sent time.Time
}

// Answer implements Exchange.
func (f *firstAttempt) Answer(reply []byte) []byte {
	was := *f
	*f = firstAttempt{}
	was.e.firsts.Put(f)
	g, ok, err := was.e.readFirst(was.a, was.sent, reply)
	switch err {
	case errTidy:
		slot, req := was.e.tidyRequest(was.a)
		was.by.SendHome(slot, req, true, exchange(func(reply []byte) []byte {
			if err := scripts.ReadTidied(reply); err != nil {
				return was.to.Acquired(redlock.Grant{}, false, err)
			}
			was.e.Acquire(was.by, was.a, was.to)
			return nil
		}), was.to)
		return nil
	case redlock.ErrAgain:
		was.e.Acquire(was.by, was.a, was.to)
		return nil
	}
	if _, steps := err.(needsSteps); steps {
		was.goOn()
		return nil
	}
	return was.to.Acquired(g, ok, err)
}

// exchange is an Exchange that is made of a function.
type exchange func(reply []byte) []byte

// Answer implements Exchange.
func (f exchange) Answer(reply []byte) []byte { return f(reply) }

// readFirst is readAcquire for the first attempt: unless a has to wait, nothing need be told any more.
func (e *Engine) readFirst(
	a *redlock.Acquire, sent time.Time, reply []byte,
) (g redlock.Grant, ok bool, err error) {
	g, ok, err = e.readAcquire(a, reply)
	g.At = sent
	if !goesOn(err) {
		e.forget(a, ok, err)
	}
	return g, ok, err
}

// forget ends what is known of the wait of a, unless it goes on.
func (e *Engine) forget(a *redlock.Acquire, ok bool, err error) {
	if ok || err != nil {
		e.waiters.Forget(a)
	}
}

// Follows implements locks.engine: the queue is in Redis, and says who is first.
func (e *Engine) Follows(*redlock.Acquire) bool { return false }

// Wait implements locks.engine: the place in the queue is taken back before the client of a wait in vain is
// told.
func (e *Engine) Wait(ctx context.Context, a *redlock.Acquire) (g redlock.Grant, ok bool, err error) {
	if g, ok, err = e.waiters.Wait(ctx, a); ok {
		e.noteFence(a, g)
		return g, true, nil
	}
	if err == nil {
		err = e.UndoOnce(a)
	}
	if err != nil {
		e.Undo(a)
	}
	return g, false, err
}

// Attempt implements locks.engine. Nothing can be taken back before the outcome is known, so it does not end
// with ctx.
func (e *Engine) Attempt(_ context.Context, a *redlock.Acquire) (g redlock.Grant, ok bool, err error) {
	at := time.Now()
	slot, req := e.acquireRequest(nil, &scripts.Acquire, a)
	reply, err := e.upstream.Do(e.ctx, slot, req, true)
	if err != nil {
		a.Unsure = true
		return g, false, err
	}
	g, ok, err = e.readAcquire(a, reply)
	if err == errTidy {
		if err = e.tidy(a); err == nil {
			err = redlock.ErrAgain
		}
	}
	g.At = at
	if _, steps := err.(needsSteps); steps {
		before, over := e.turns.take(a.Name)
		defer over()
		if before != nil {
			<-before
		}
		return e.acquireApart(a)
	}
	return g, ok, err
}

// acquireRequest is the command that tries to take the lock, and the slot whose master must get it. It may be
// sent again. room is as that of evalIn, s scripts.Acquire or acquireAlone.
func (e *Engine) acquireRequest(room []byte, s *scripts.Script, a *redlock.Acquire) (slot int, req []byte) {
	more := a.Keeper != "" || a.Meta != "" || e.grace.on()
	args := 11
	switch {
	case !more && a.Wait <= 0 && a.Mode == redlock.Write && !a.Reentrant: // most of them
		slot, c := scripts.EvalIn(room, e.names, s, a.Name, 2)
		c.Plain(a)
		return slot, c.Req
	case !more:
		args = 8
	}
	slot, c := scripts.EvalIn(room, e.names, s, a.Name, args)
	c.Plain(a)
	mode := string(a.Mode)
	if a.Wait > 0 && a.Mode == redlock.Write && e.waiters.Waited(a) {
		mode = "behind"
	}
	c.Text(mode)
	c.Flag(a.Reentrant)
	if a.Wait > 0 {
		c.Text(e.names.ID)
		left := time.Until(e.waiters.Expect(a))
		c.Number(max(left, time.Millisecond).Milliseconds())
		c.Most(a.Mode, e.o.MaxQueue, e.o.MaxReaders)
	} else {
		c.Empty()
		c.Empty()
		c.Most(a.Mode, 0, e.o.MaxReaders)
	}
	c.Text(e.publish())
	if more {
		c.Text(a.Keeper)
		c.Text(a.Meta)
		c.Text(e.grace.master(slot))
	}
	return slot, c.Req
}

// readAcquire reads the reply to acquireRequest. After ErrAgain make the request again, and send it; after
// needsSteps go on with acquireApart.
func (e *Engine) readAcquire(a *redlock.Acquire, reply []byte) (g redlock.Grant, ok bool, err error) {
	r, err := scripts.ReadAcquire(a, reply)
	switch {
	case err != nil:
		if err = e.retried(a, err); !goesOn(err) && !redlock.Refused(err) {
			a.Unsure = true
		}
		return g, false, err
	case r.Overtaken:
		a.ID = e.names.NewID(a)
		return g, false, redlock.ErrAgain
	case r.Queued:
		if e.upstream.Moving(e.names.Place(a.Name).Slot) {
			r.Pause = min(r.Pause, movingPulse)
		}
		e.waiters.Queued(a, r.Pause, r.Try)
	case r.Granted && scripts.Unnumbered(r.Grant.Fence):
		return r.Grant, false, needsSteps{r.Grant.Fence}
	case r.Granted:
		e.noteFence(a, r.Grant)
	}
	return r.Grant, r.Granted, nil
}

// noteFence notes the fence of a grant for the UNLOCK that comes.
func (e *Engine) noteFence(a *redlock.Acquire, g redlock.Grant) {
	if a.Mode == redlock.Write {
		e.fences.of(a.Name, a.Token).Store(g.Fence)
	}
}

// errTidy says that tidy.lua is to run before acquire.lua is asked again.
var errTidy = errors.New("redlock: those who have gone are to be looked for first")

// tidyRequest is the command that drops those who have gone, for a.
func (e *Engine) tidyRequest(a *redlock.Acquire) (slot int, req []byte) {
	slot, c := scripts.Eval(e.names, &scripts.Tidy, a.Name, 2)
	c.Most(a.Mode, e.o.MaxQueue, e.o.MaxReaders)
	c.Text(e.names.ID)
	return slot, c.Req
}

// tidy has tidy.lua run for a. It blocks.
func (e *Engine) tidy(a *redlock.Acquire) error {
	slot, req := e.tidyRequest(a)
	reply, err := e.upstream.Do(e.ctx, slot, req, true)
	if err != nil {
		return err
	}
	return scripts.ReadTidied(reply)
}

// goesOn says that an attempt is not over by err: it is to be made again, maybe after something else.
func goesOn(err error) bool {
	_, steps := err.(needsSteps)
	return steps || err == redlock.ErrAgain || err == errTidy
}

// retried is err, or what is to be done before the request is made again: nothing (ErrAgain), errTidy or
// needsSteps.
func (e *Engine) retried(a *redlock.Acquire, err error) error {
	said, ok := err.(redlock.ReplyError)
	switch {
	case ok && strings.HasPrefix(string(said), "MASTER "):
		return e.grace.otherMaster(e.names.Place(a.Name).Slot, said)
	case ok && strings.HasPrefix(string(said), "TIDY "):
		return errTidy
	case ok && strings.HasPrefix(string(said), "TRYAGAIN Multiple keys "):
		return needsSteps{}
	case ok && strings.HasPrefix(string(said), "FENCE "):
		stands, _ := strconv.ParseInt(string(said[len("FENCE "):]), 10, 64)
		return needsSteps{stands}
	}
	return err
}

// Release implements locks.engine.
func (e *Engine) Release(by redlock.Caller, r *redlock.Release, to redlock.Releaser) {
	fresh := e.names.NewRequest()
	slot, req, _ := e.releaseRequest(by.Room(), &scripts.Release, r, fresh)
	sent, _ := e.releases.Get().(*sentRelease)
	if sent == nil {
		sent = new(sentRelease)
	}
	*sent = sentRelease{e, by, r, to, slot, fresh}
	by.SendHome(slot, req, true, sent, nil)
}

// sentRelease is a Release on its way. It is used again as a firstAttempt is.
type sentRelease struct {
	e  *Engine
	by redlock.Caller
	r  *redlock.Release
	to redlock.Releaser

	slot  int
	fresh [redlock.IDBytes]byte // its id, unless its client has named it
}

// Answer implements Exchange.
func (s *sentRelease) Answer(reply []byte) []byte {
	was := *s
	*s = sentRelease{}
	was.e.releases.Put(s)
	if parted(reply) {
		was.goOn()
		return nil
	}
	done, err := was.e.readRelease(was.slot, was.r.Name, reply)
	if err == redlock.ErrAgain {
		was.e.Release(was.by, was.r, was.to)
		return nil
	}
	return was.to.Released(done, err)
}

// releaseRequest may be sent again. s is scripts.Release or releaseAlone, fresh the id of a request that its
// client has not named, and id that of this one.
func (e *Engine) releaseRequest(room []byte, s *scripts.Script, r *redlock.Release, fresh [redlock.IDBytes]byte) (
	slot int, req []byte, id [redlock.IDBytes]byte,
) {
	slot, c := scripts.EvalIn(room, e.names, s, r.Name, 9-s.Keys)
	id = c.Released(r, fresh)
	e.frees(&c)
	switch {
	case s == releaseAlone:
		c.Empty()
		c.Text(scripts.FenceKey(e.names, slot))
	case r.Named != "":
		c.Empty()
	case r.Fence != 0:
		c.Number(r.Fence)
	default:
		c.Number(e.fences.of(r.Name, r.Token).Load())
	}
	return slot, c.Req, id
}

// readRelease reads the reply to releaseRequest, and that of all who free a lock. A waiter of this proxy that
// got the lock by it is told so. After ErrAgain make the request again, and send it.
func (e *Engine) readRelease(slot int, name string, reply []byte) (redlock.Released, error) {
	r, to, err := scripts.ReadFreed(reply)
	switch {
	case to.Waiter != "":
		e.waiters.HandOver(to.Waiter, to.Grant)
	case r.Held:
		e.tell(slot, name)
	}
	return r, err
}

// Renew implements locks.engine.
func (e *Engine) Renew(by redlock.Caller, r *redlock.Renew, then func(redlock.Renewed, error) []byte) {
	slot, req := e.renewRequest(r)
	by.SendHome(slot, req, true, exchange(func(reply []byte) []byte {
		done, err := scripts.ReadRenewed(reply)
		if err != nil || !scripts.Unnumbered(done.Fence) {
			return then(done, err)
		}
		e.renewOn(by, r, done, then)
		return nil
	}), nil)
}

func (e *Engine) renewRequest(r *redlock.Renew) (slot int, req []byte) {
	args := 3
	if r.Keeper != "" {
		args = 4
	}
	slot, c := scripts.Eval(e.names, &scripts.Renew, r.Name, args)
	c.Renewed(e.names, r)
	if r.Keeper != "" {
		c.Text(r.Keeper)
	}
	return slot, c.Req
}

// Break implements locks.engine. The request is not to be sent again: that could break the hold of the next
// one, if another proxy has asked for that.
func (e *Engine) Break(by redlock.Caller, name string, then func(bool, error) []byte) {
	e.breakSome(by, name, e.names.NewRequest(), false, then)
}

// breakSome breaks as many holds as one script may, and then the others. broken: some are already.
func (e *Engine) breakSome(
	by redlock.Caller, name string, id [redlock.IDBytes]byte, broken bool, then func(bool, error) []byte,
) {
	slot, req := e.breakRequest(&scripts.Break, name, id)
	by.SendHome(slot, req, false, exchange(func(reply []byte) []byte {
		if parted(reply) {
			e.breakOn(by, name, id, broken, then)
			return nil
		}
		r, err := e.readRelease(slot, name, reply)
		if err == redlock.ErrAgain {
			e.breakSome(by, name, id, true, then)
			return nil
		}
		return then(broken || r.Whole, err)
	}), nil)
}

// breakRequest is of scripts.Break or breakAlone.
func (e *Engine) breakRequest(s *scripts.Script, name string, id [redlock.IDBytes]byte) (slot int, req []byte) {
	slot, c := scripts.Eval(e.names, s, name, 6-s.Keys)
	e.frees(&c)
	c.Bytes(id[:])
	if s == breakAlone {
		c.Text(scripts.FenceKey(e.names, slot))
	}
	return slot, c.Req
}

// Inspect implements locks.engine.
func (e *Engine) Inspect(by redlock.Caller, name, token string, then func(redlock.State, error) []byte) {
	e.readPage(by, name, token, &scripts.Pages{}, then)
}

// readPage asks for one page of a lock, and then for the next, until it has them all.
func (e *Engine) readPage(
	by redlock.Caller, name, token string, p *scripts.Pages, then func(redlock.State, error) []byte,
) {
	slot, c := scripts.InspectCall(e.names, name, token, p)
	by.SendHome(slot, c.Req, true, exchange(func(reply []byte) []byte {
		s, err := e.readLock(name, bytes.Clone(reply), p)
		if err == redlock.ErrAgain {
			e.readPage(by, name, token, p, then)
			return nil
		}
		if err == nil && unnumbered(s) {
			e.inspectOn(by, name, token, s, then)
			return nil
		}
		return then(s, err)
	}), nil)
}

// State implements locks.engine.
func (e *Engine) State(ctx context.Context, name string) (redlock.State, error) {
	s, err := e.readAll(ctx, name, "")
	if err != nil {
		return s, err
	}
	return e.numbered(ctx, name, "", s)
}

// readAll reads a lock whole. It blocks.
func (e *Engine) readAll(ctx context.Context, name, token string) (redlock.State, error) {
	for p := (scripts.Pages{}); ; {
		slot, c := scripts.InspectCall(e.names, name, token, &p)
		reply, err := e.upstream.Do(ctx, slot, c.Req, true)
		if err != nil {
			return redlock.State{}, err
		}
		if s, err := e.readLock(name, reply, &p); err != redlock.ErrAgain {
			return s, err
		}
	}
}

// readLock reads one page of a lock. After ErrAgain ask for the next one.
func (e *Engine) readLock(name string, reply []byte, p *scripts.Pages) (redlock.State, error) {
	s, err := scripts.ReadLock(reply, p)
	s.Key = e.names.Place(name).Key
	return s, err
}

// Keep implements locks.engine.
func (e *Engine) Keep(ctx context.Context, slot int, batch []redlock.Renewal) ([]int64, error) {
	c := scripts.KeepCall(e.names, batch, 0)
	reply, err := e.upstream.Do(ctx, slot, c.Req, true)
	if err != nil {
		return nil, err
	}
	if parted(reply) && len(batch) > 1 {
		var left []int64
		for i := range batch {
			one, err := e.Keep(ctx, slot, batch[i:i+1])
			if err != nil {
				return nil, err
			}
			left = append(left, one...)
		}
		return left, nil
	}
	return scripts.ReadKept(reply, len(batch))
}

// Detach implements locks.engine.
func (e *Engine) Detach(ctx context.Context, name, token, keeper string) error {
	return e.free(ctx, name, func(apart bool) (slot int, req []byte) {
		s := &scripts.Detach
		if apart {
			s = detachAlone
		}
		slot, c := scripts.Eval(e.names, s, name, 5)
		c.Owner(token)
		c.Text(keeper)
		e.frees(&c)
		return slot, c.Req
	})
}

// free runs a script that frees a lock, with the lock alone as its key if the slot moves.
func (e *Engine) free(ctx context.Context, name string, request func(apart bool) (slot int, req []byte)) error {
	slot, req := request(false)
	reply, err := e.upstream.Do(ctx, slot, req, true)
	if err == nil && parted(reply) {
		before, over := e.turns.take(name)
		defer over()
		if before != nil {
			<-before
		}
		slot, req = request(true)
		reply, err = e.upstream.Do(ctx, slot, req, true)
	}
	if err == nil {
		_, err = e.readRelease(slot, name, reply)
	}
	return err
}

// frees appends what the scripts need that free a lock. A new master grants nothing yet, and a lock alone is
// not granted without a fence.
func (e *Engine) frees(c *scripts.Call) {
	next := scripts.GrantNext
	if e.grace.on() || c.Script.Keys == 1 {
		next = scripts.OfferNext
	}
	c.Freed(e.names.ID, e.publish(), next)
}

// publish is the command that wakes waiters.
func (e *Engine) publish() string {
	if e.upstream.Sharded() {
		return "SPUBLISH"
	}
	return "PUBLISH"
}

// Scan implements locks.engine.
func (e *Engine) Scan(ctx context.Context, i int,
	cursor, glob string) (keys []string, next string, err error) {
	reply, err := e.upstream.DoMaster(ctx, i, scripts.ScanRequest(cursor, glob), true)
	if err != nil {
		return nil, "", err
	}
	return scripts.ReadKeys(reply)
}

func (e *Engine) Masters() int           { return e.upstream.Masters() }
func (e *Engine) Master(slot int) string { return e.upstream.Master(slot) }

// Listen implements locks.engine.
func (e *Engine) Listen(
	ctx context.Context, slot int, channel string, notify func(subscription.Event),
) (func(), error) {
	return e.upstream.Subscribe(ctx, slot, channel, notify)
}

// Close implements locks.engine: it waits until what is to be taken back is.
func (e *Engine) Close(ctx context.Context) {
	stop := context.AfterFunc(ctx, e.cancel)
	defer stop()
	e.work.Wait()
	e.cancel()
	e.late.running.Wait()
	e.waiters.Close()
}
