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
	// fail-over are dealt with inside. resend: req may be sent again when its
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
	slot, req := e.acquireRequest(by.Room(), a)
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
	if ok || err != nil && err != redlock.ErrAgain && err != errTidy {
		e.waiters.Forget(a)
	}
	return g, ok, err
}

// Follows implements locks.engine: the queue is in Redis, and says who is first.
func (e *Engine) Follows(*redlock.Acquire) bool { return false }

// Wait implements locks.engine: the place in the queue is taken back before the client of a wait in vain is
// told.
func (e *Engine) Wait(ctx context.Context, a *redlock.Acquire) (g redlock.Grant, ok bool, err error) {
	if g, ok, err = e.waiters.Wait(ctx, a); ok {
		if a.Mode == redlock.Write {
			e.fences.of(a.Name, a.Token).Store(g.Fence)
		}
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
	slot, req := e.acquireRequest(nil, a)
	reply, err := e.upstream.Do(e.ctx, slot, req, true)
	if err != nil {
		a.Unsure = true
		return g, false, err
	}
	g, ok, err = e.readAcquire(a, reply)
	if err == errTidy {
		slot, req := e.tidyRequest(a)
		if reply, err = e.upstream.Do(e.ctx, slot, req, true); err == nil {
			err = scripts.ReadTidied(reply)
		}
		if err == nil {
			err = redlock.ErrAgain
		}
	}
	g.At = at
	return g, ok, err
}

// acquireRequest is the command that tries to take the lock, and the slot whose master must get it. It may be
// sent again. room is as that of evalIn.
func (e *Engine) acquireRequest(room []byte, a *redlock.Acquire) (slot int, req []byte) {
	more := a.Keeper != "" || a.Meta != "" || e.grace.on()
	args := 11
	switch {
	case !more && a.Wait <= 0 && a.Mode == redlock.Write && !a.Reentrant: // most of them
		slot, c := scripts.EvalIn(room, e.names, &scripts.Acquire, a.Name, 2)
		c.Plain(a)
		return slot, c.Req
	case !more:
		args = 8
	}
	slot, c := scripts.EvalIn(room, e.names, &scripts.Acquire, a.Name, args)
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

// readAcquire reads the reply to acquireRequest. After ErrAgain make the request again, and send it.
func (e *Engine) readAcquire(a *redlock.Acquire, reply []byte) (g redlock.Grant, ok bool, err error) {
	r, err := scripts.ReadAcquire(a, reply)
	switch {
	case err != nil:
		if err = e.retried(a, err); err != redlock.ErrAgain && err != errTidy && !redlock.Refused(err) {
			a.Unsure = true
		}
		return g, false, err
	case r.Overtaken:
		a.ID = e.names.NewID(a)
		return g, false, redlock.ErrAgain
	case r.Queued:
		e.waiters.Queued(a, r.Pause, r.Try)
	case r.Granted && a.Mode == redlock.Write:
		e.fences.of(a.Name, a.Token).Store(r.Grant.Fence)
	}
	return r.Grant, r.Granted, nil
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

// retried is err, or what is to be done before the request is made again: nothing (ErrAgain), or errTidy.
func (e *Engine) retried(a *redlock.Acquire, err error) error {
	said, ok := err.(redlock.ReplyError)
	switch {
	case ok && strings.HasPrefix(string(said), "MASTER "):
		return e.grace.otherMaster(e.names.Place(a.Name).Slot, said)
	case ok && strings.HasPrefix(string(said), "TIDY "):
		return errTidy
	}
	return err
}

// Release implements locks.engine.
func (e *Engine) Release(by redlock.Caller, r *redlock.Release, to redlock.Releaser) {
	slot, req := e.releaseRequest(by.Room(), r)
	sent, _ := e.releases.Get().(*sentRelease)
	if sent == nil {
		sent = new(sentRelease)
	}
	*sent = sentRelease{e, by, r, to}
	by.SendHome(slot, req, true, sent, nil)
}

// sentRelease is a Release on its way. It is used again as a firstAttempt is.
type sentRelease struct {
	e  *Engine
	by redlock.Caller
	r  *redlock.Release
	to redlock.Releaser
}

// Answer implements Exchange.
func (s *sentRelease) Answer(reply []byte) []byte {
	was := *s
	*s = sentRelease{}
	was.e.releases.Put(s)
	done, err := was.e.readRelease(reply)
	if err == redlock.ErrAgain {
		was.e.Release(was.by, was.r, was.to)
		return nil
	}
	return was.to.Released(done, err)
}

// releaseRequest may be sent again; each call makes another request.
func (e *Engine) releaseRequest(room []byte, r *redlock.Release) (slot int, req []byte) {
	slot, c := scripts.EvalIn(room, e.names, &scripts.Release, r.Name, 7)
	c.Released(e.names, r)
	e.frees(&c)
	switch {
	case r.Named != "":
		c.Empty()
	case r.Fence != 0:
		c.Number(r.Fence)
	default:
		c.Number(e.fences.of(r.Name, r.Token).Load())
	}
	return slot, c.Req
}

// readRelease reads the reply to releaseRequest, and that of all who free a lock. A waiter of this proxy that
// got the lock by it is told so. After ErrAgain make the request again, and send it.
func (e *Engine) readRelease(reply []byte) (redlock.Released, error) {
	r, to, err := scripts.ReadFreed(reply)
	if to.Waiter != "" {
		e.waiters.HandOver(to.Waiter, to.Grant)
	}
	return r, err
}

// Renew implements locks.engine.
func (e *Engine) Renew(by redlock.Caller, r *redlock.Renew, then func(redlock.Renewed, error) []byte) {
	slot, req := e.renewRequest(r)
	by.SendHome(slot, req, true, exchange(func(reply []byte) []byte {
		return then(scripts.ReadRenewed(reply))
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
	slot, req := e.breakRequest(name)
	e.breakSome(by, slot, req, false, then)
}

// breakSome breaks as many holds as one script may, and then the others. broken: some are already.
func (e *Engine) breakSome(
	by redlock.Caller, slot int, req []byte, broken bool, then func(bool, error) []byte,
) {
	by.SendHome(slot, req, false, exchange(func(reply []byte) []byte {
		r, err := e.readRelease(reply)
		if err == redlock.ErrAgain {
			e.breakSome(by, slot, req, true, then)
			return nil
		}
		return then(broken || r.Whole, err)
	}), nil)
}

func (e *Engine) breakRequest(name string) (slot int, req []byte) {
	slot, c := scripts.Eval(e.names, &scripts.Break, name, 4)
	e.frees(&c)
	id := e.names.NewRequest()
	c.Bytes(id[:])
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
		return then(s, err)
	}), nil)
}

// State implements locks.engine.
func (e *Engine) State(ctx context.Context, name string) (redlock.State, error) {
	for p := (scripts.Pages{}); ; {
		slot, c := scripts.InspectCall(e.names, name, "", &p)
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
	return scripts.ReadKept(reply, len(batch))
}

// Detach implements locks.engine.
func (e *Engine) Detach(ctx context.Context, name, token, keeper string) error {
	slot, c := scripts.Eval(e.names, &scripts.Detach, name, 5)
	c.Owner(token)
	c.Text(keeper)
	e.frees(&c)
	return e.free(ctx, slot, c.Req)
}

// free runs a script that frees a lock.
func (e *Engine) free(ctx context.Context, slot int, req []byte) error {
	reply, err := e.upstream.Do(ctx, slot, req, true)
	if err == nil {
		_, err = e.readRelease(reply)
	}
	return err
}

// frees appends what the scripts need that free a lock. A new master grants nothing yet.
func (e *Engine) frees(c *scripts.Call) {
	next := scripts.GrantNext
	if e.grace.on() {
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
