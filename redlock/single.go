package redlock

import (
	"bytes"
	"context"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"time"

	"lockproxy/internal/resp"
	"lockproxy/internal/subscription"
	"lockproxy/redlock/scripts"
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

// single is the engine of locks that one Redis keeps, or a cluster, each lock on the master of its slot. One
// script decides each transition, and the queue is part of the lock.
type single struct {
	upstream Upstream
	names    *naming
	o        singleOptions
	waiters  *redisOrder
	grace    grace
	late     lateness
	fences   *lastFences

	// What goes on when nobody waits for it ends with ctx.
	ctx    context.Context
	cancel context.CancelFunc
	work   sync.WaitGroup // that close waits for
}

// singleOptions are those of single.
type singleOptions struct {
	maxQueue      int           // waiters of one lock
	maxReaders    int           // readers of one lock
	failoverGrace time.Duration // a master that was not the master before grants nothing new for that; 0: it does
	syncTimeout   time.Duration // replicas are waited for so long
	log           *slog.Logger
}

func newSingle(u Upstream, names *naming, o singleOptions) *single {
	e := &single{upstream: u, names: names, o: o, fences: newLastFences()}
	e.grace.period = o.failoverGrace
	e.waiters = newRedisOrder(e, names, o.log)
	e.ctx, e.cancel = context.WithCancel(context.Background())
	return e
}

// Acquire implements engine.
func (e *single) Acquire(by Caller, a *Acquire, to Acquirer) {
	first := &firstAttempt{e, by, a, to, time.Now()}
	slot, req := e.acquireRequest(by.Room(), a)
	by.SendHome(slot, req, true, first, to)
}

// firstAttempt is an Acquire on its way.
type firstAttempt struct {
	e    *single
	by   Caller
	a    *Acquire
	to   Acquirer
	sent time.Time
}

// Answer implements Exchange.
func (f *firstAttempt) Answer(reply []byte) []byte {
	g, ok, err := f.e.readFirst(f.a, f.sent, reply)
	if err == ErrAgain {
		f.e.Acquire(f.by, f.a, f.to)
		return nil
	}
	return f.to.Acquired(g, ok, err)
}

// exchange is an Exchange that is made of a function.
type exchange func(reply []byte) []byte

// Answer implements Exchange.
func (f exchange) Answer(reply []byte) []byte { return f(reply) }

// readFirst is readAcquire for the first attempt: unless a has to wait, nothing need be told any more.
func (e *single) readFirst(a *Acquire, sent time.Time, reply []byte) (g Grant, ok bool, err error) {
	g, ok, err = e.readAcquire(a, reply)
	g.At = sent
	if ok || err != nil && err != ErrAgain {
		e.waiters.queues.forget(a)
	}
	return g, ok, err
}

// Follows implements engine: the queue is in Redis, and says who is first.
func (e *single) Follows(*Acquire) bool { return false }

// Wait implements engine: the place in the queue is taken back before the client of a wait in vain is told.
func (e *single) Wait(ctx context.Context, a *Acquire) (g Grant, ok bool, err error) {
	if g, ok, err = e.waiters.queues.wait(ctx, a); ok {
		if a.Mode == Write {
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

// Attempt implements engine. Nothing can be taken back before the outcome is known, so it does not end with
// ctx.
func (e *single) Attempt(_ context.Context, a *Acquire) (g Grant, ok bool, err error) {
	at := time.Now()
	slot, req := e.acquireRequest(nil, a)
	reply, err := e.upstream.Do(e.ctx, slot, req, true)
	if err != nil {
		a.unsure = true
		return g, false, err
	}
	g, ok, err = e.readAcquire(a, reply)
	g.At = at
	return g, ok, err
}

// acquireRequest is the command that tries to take the lock, and the slot whose master must get it. It may be
// sent again. room is as that of evalIn.
func (e *single) acquireRequest(room []byte, a *Acquire) (slot int, req []byte) {
	more := a.Keeper != "" || a.Meta != "" || e.grace.on()
	args := 11
	switch {
	case !more && a.Wait <= 0 && a.Mode == Write && !a.Reentrant: // most of them
		slot, c := e.names.evalIn(room, &scripts.Acquire, a.Name, 2)
		c.plain(a)
		return slot, c.req
	case !more:
		args = 8
	}
	slot, c := e.names.evalIn(room, &scripts.Acquire, a.Name, args)
	c.plain(a)
	var w *waiter
	mode := string(a.Mode)
	if a.Wait > 0 {
		w = e.waiters.queues.expect(a)
		if a.Mode == Write && e.waiters.queues.waited(w) {
			mode = "behind"
		}
	}
	c.text(mode)
	c.flag(a.Reentrant)
	if w != nil {
		c.text(e.names.id)
		c.number(max(time.Until(w.deadline), time.Millisecond).Milliseconds())
		c.most(a.Mode, e.o.maxQueue, e.o.maxReaders)
	} else {
		c.empty()
		c.empty()
		c.most(a.Mode, 0, e.o.maxReaders)
	}
	c.text(e.publish())
	if more {
		c.text(a.Keeper)
		c.text(a.Meta)
		c.text(e.grace.master(slot))
	}
	return slot, c.req
}

// most appends how many may wait for the lock, if any may, and how many may read it, if one of them asks.
func (c *call) most(m Mode, waiters, readers int) {
	var space [40]byte
	most := space[:0]
	if waiters > 0 {
		most = strconv.AppendInt(most, int64(waiters), 10)
	}
	if m == Read {
		most = strconv.AppendInt(append(most, ' '), int64(readers), 10)
	}
	c.bytes(most)
}

// readAcquire reads the reply to acquireRequest. After ErrAgain make the request again, and send it.
func (e *single) readAcquire(a *Acquire, reply []byte) (g Grant, ok bool, err error) {
	r, err := readAcquire(a, reply)
	switch {
	case err != nil:
		if err = e.retried(a, err); err != ErrAgain && !Refused(err) {
			a.unsure = true
		}
		return g, false, err
	case r.overtaken:
		a.ID = e.names.newID(a)
		return g, false, ErrAgain
	case r.queued:
		e.waiters.queued(a, r.pause, r.try)
	case r.granted && a.Mode == Write:
		e.fences.of(a.Name, a.Token).Store(r.grant.Fence)
	}
	return r.grant, r.granted, nil
}

// retried is err, or ErrAgain if the script only could not decide yet.
func (e *single) retried(a *Acquire, err error) error {
	said, ok := err.(ReplyError)
	switch {
	case ok && strings.HasPrefix(string(said), "MASTER "):
		return e.grace.otherMaster(e.names.place(a.Name).slot, said)
	case ok && strings.HasPrefix(string(said), "SWEEP "):
		return ErrAgain
	}
	return err
}

// Release implements engine.
func (e *single) Release(by Caller, r *Release, to Releaser) {
	slot, req := e.releaseRequest(by.Room(), r)
	by.SendHome(slot, req, true, &sentRelease{e, by, r, to}, nil)
}

// sentRelease is a Release on its way.
type sentRelease struct {
	e  *single
	by Caller
	r  *Release
	to Releaser
}

// Answer implements Exchange.
func (s *sentRelease) Answer(reply []byte) []byte {
	done, err := s.e.readRelease(reply)
	if err == ErrAgain {
		s.e.Release(s.by, s.r, s.to)
		return nil
	}
	return s.to.Released(done, err)
}

// releaseRequest may be sent again; each call makes another request.
func (e *single) releaseRequest(room []byte, r *Release) (slot int, req []byte) {
	slot, c := e.names.evalIn(room, &scripts.Release, r.Name, 7)
	c.released(e.names, r)
	e.frees(&c)
	switch {
	case r.Named != "":
		c.empty()
	case r.Fence != 0:
		c.number(r.Fence)
	default:
		c.number(e.fences.of(r.Name, r.Token).Load())
	}
	return slot, c.req
}

// readRelease reads the reply to releaseRequest, and that of all who free a lock. A waiter of this proxy that
// got the lock by it is told so. After ErrAgain make the request again, and send it.
func (e *single) readRelease(reply []byte) (Released, error) {
	r, to, err := readFreed(reply)
	if to.waiter != "" {
		e.waiters.queues.handOver(to.waiter, to.grant)
	}
	return r, err
}

// Renew implements engine.
func (e *single) Renew(by Caller, r *Renew, then func(Renewed, error) []byte) {
	slot, req := e.renewRequest(r)
	by.SendHome(slot, req, true, exchange(func(reply []byte) []byte {
		return then(readRenewed(reply))
	}), nil)
}

func (e *single) renewRequest(r *Renew) (slot int, req []byte) {
	args := 3
	if r.Keeper != "" {
		args = 4
	}
	slot, c := e.names.eval(&scripts.Renew, r.Name, args)
	c.renewed(e.names, r)
	if r.Keeper != "" {
		c.text(r.Keeper)
	}
	return slot, c.req
}

// Break implements engine. The request is not to be sent again: that could break the hold of the next
// one, if another proxy has asked for that.
func (e *single) Break(by Caller, name string, then func(bool, error) []byte) {
	slot, req := e.breakRequest(name)
	e.breakSome(by, slot, req, false, then)
}

// breakSome breaks as many holds as one script may, and then the others. broken: some are already.
func (e *single) breakSome(by Caller, slot int, req []byte, broken bool, then func(bool, error) []byte) {
	by.SendHome(slot, req, false, exchange(func(reply []byte) []byte {
		r, err := e.readRelease(reply)
		if err == ErrAgain {
			e.breakSome(by, slot, req, true, then)
			return nil
		}
		return then(broken || r.Whole, err)
	}), nil)
}

func (e *single) breakRequest(name string) (slot int, req []byte) {
	slot, c := e.names.eval(&scripts.Break, name, 4)
	e.frees(&c)
	id := e.names.ids.next()
	c.bytes(id[:])
	return slot, c.req
}

// Inspect implements engine.
func (e *single) Inspect(by Caller, name, token string, then func(State, error) []byte) {
	e.readPage(by, name, token, &pages{}, then)
}

// readPage asks for one page of a lock, and then for the next, until it has them all.
func (e *single) readPage(by Caller, name, token string, p *pages, then func(State, error) []byte) {
	slot, c := e.names.inspected(name, token, p)
	by.SendHome(slot, c.req, true, exchange(func(reply []byte) []byte {
		s, err := e.readLock(name, bytes.Clone(reply), p)
		if err == ErrAgain {
			e.readPage(by, name, token, p, then)
			return nil
		}
		return then(s, err)
	}), nil)
}

// State implements engine.
func (e *single) State(ctx context.Context, name string) (State, error) {
	for p := (pages{}); ; {
		slot, c := e.names.inspected(name, "", &p)
		reply, err := e.upstream.Do(ctx, slot, c.req, true)
		if err != nil {
			return State{}, err
		}
		if s, err := e.readLock(name, reply, &p); err != ErrAgain {
			return s, err
		}
	}
}

// readLock reads one page of a lock. After ErrAgain ask for the next one.
func (e *single) readLock(name string, reply []byte, p *pages) (State, error) {
	s, err := readLock(reply, p)
	s.Key = e.names.place(name).key
	return s, err
}

// Keep implements engine.
func (e *single) Keep(ctx context.Context, slot int, batch []Renewal) ([]int64, error) {
	c := e.names.kept(batch, 0)
	reply, err := e.upstream.Do(ctx, slot, c.req, true)
	if err != nil {
		return nil, err
	}
	return readKept(reply, len(batch))
}

// Detach implements engine.
func (e *single) Detach(ctx context.Context, name, token, keeper string) error {
	slot, c := e.names.eval(&scripts.Detach, name, 5)
	c.owner(token)
	c.text(keeper)
	e.frees(&c)
	return e.free(ctx, slot, c.req)
}

// free runs a script that frees a lock.
func (e *single) free(ctx context.Context, slot int, req []byte) error {
	reply, err := e.upstream.Do(ctx, slot, req, true)
	if err == nil {
		_, err = e.readRelease(reply)
	}
	return err
}

// frees appends what the scripts need that free a lock. A new master grants nothing yet.
func (e *single) frees(c *call) {
	next := grantNext
	if e.grace.on() {
		next = offerNext
	}
	c.freed(e.names.id, e.publish(), next)
}

// publish is the command that wakes waiters.
func (e *single) publish() string {
	if e.upstream.Sharded() {
		return "SPUBLISH"
	}
	return "PUBLISH"
}

// Scan implements engine.
func (e *single) Scan(ctx context.Context, i int,
	cursor, glob string) (keys []string, next string, err error) {
	reply, err := e.upstream.DoMaster(ctx, i, scanRequest(cursor, glob), true)
	if err != nil {
		return nil, "", err
	}
	return readKeys(reply)
}

func scanRequest(cursor, glob string) []byte {
	return resp.AppendCommandStrings(nil, "SCAN", cursor, "MATCH", glob, "COUNT", strconv.Itoa(scanStep))
}

func (e *single) Masters() int           { return e.upstream.Masters() }
func (e *single) Master(slot int) string { return e.upstream.Master(slot) }

// Listen implements engine.
func (e *single) Listen(
	ctx context.Context, slot int, channel string, notify func(subscription.Event),
) (func(), error) {
	return e.upstream.Subscribe(ctx, slot, channel, notify)
}

// Close implements engine: it waits until what is to be taken back is.
func (e *single) Close(ctx context.Context) {
	stop := context.AfterFunc(ctx, e.cancel)
	defer stop()
	e.work.Wait()
	e.cancel()
	e.late.running.Wait()
	e.waiters.queues.close()
}
