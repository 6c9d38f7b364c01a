package redlock

import (
	"bytes"
	"context"
	"strconv"
	"strings"
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
	upstream    Upstream
	names       *naming
	queues      *waitQueues
	back        *background
	grace       grace
	late        lateness
	stats       *counters
	maxQueue    int
	maxReaders  int
	syncTimeout time.Duration
}

// acquire implements engine.
func (e *single) acquire(by Caller, a *Acquire, to Acquirer) {
	a.sent = time.Now()
	slot, req := e.acquireRequest(a)
	by.SendHome(slot, req, true, func(reply []byte) []byte {
		g, ok, err := e.readFirst(a, reply)
		if err == ErrAgain {
			e.acquire(by, a, to)
			return nil
		}
		return to.Acquired(g, ok, err)
	}, to.Lost)
}

// readFirst is readAcquire for the first attempt: unless a has to wait, nothing need be told any more.
func (e *single) readFirst(a *Acquire, reply []byte) (g Grant, ok bool, err error) {
	g, ok, err = e.readAcquire(a, reply)
	g.At = a.sent
	if err == ErrAgain {
		return g, false, err
	}
	if ok || err != nil {
		e.queues.forget(a.w)
	}
	if err != nil && !Refused(err) {
		a.unsure = true
	}
	return g, ok, err
}

// attempt implements engine. Nothing can be taken back before the outcome is known, so it does not end with
// ctx.
func (e *single) attempt(_ context.Context, a *Acquire) (g Grant, ok bool, err error) {
	at := time.Now()
	slot, req := e.acquireRequest(a)
	reply, err := e.upstream.Do(e.back.ctx, slot, req, true)
	if err != nil {
		a.unsure = true
		return g, false, err
	}
	g, ok, err = e.readAcquire(a, reply)
	g.At = at
	return g, ok, err
}

// acquireRequest is the command that tries to take the lock, and the slot whose master must get it. It may be
// sent again.
func (e *single) acquireRequest(a *Acquire) (slot int, req []byte) {
	more := a.Keeper != "" || a.Meta != "" || e.grace.on()
	args := 12
	switch {
	case !more && a.Wait <= 0 && a.Mode == Write: // most of them
		slot, c := e.names.eval(&scripts.Acquire, a.Name, 5)
		c.asked(a)
		return slot, c.req
	case !more:
		args = 9
	}
	if a.Wait > 0 && a.w == nil {
		a.w = e.queues.expect(a, e.names.place(a.Name))
	}
	slot, c := e.names.eval(&scripts.Acquire, a.Name, args)
	c.asked(a)
	if a.Wait > 0 {
		c.text(e.names.id)
		c.number(max(time.Until(a.w.deadline), time.Millisecond).Milliseconds())
		c.most(a.Mode, e.maxQueue, e.maxReaders)
	} else {
		c.empty()
		c.empty()
		c.most(a.Mode, 0, e.maxReaders)
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
		return g, false, e.retried(a, err)
	case r.overtaken:
		a.ID = e.names.newID(a)
		return g, false, ErrAgain
	case r.queued:
		e.queues.queued(a.w, r.pause, r.try)
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

// release implements engine.
func (e *single) release(by Caller, r *Release, to Releaser) {
	slot, req := e.releaseRequest(r)
	by.SendHome(slot, req, true, func(reply []byte) []byte {
		done, err := e.readRelease(reply)
		if err == ErrAgain {
			e.release(by, r, to)
			return nil
		}
		e.stats.release(done, err)
		return to.Released(done, err)
	}, nil)
}

// releaseRequest may be sent again; each call makes another request.
func (e *single) releaseRequest(r *Release) (slot int, req []byte) {
	slot, c := e.names.eval(&scripts.Release, r.Name, 6)
	c.released(e.names, r)
	e.frees(&c)
	return slot, c.req
}

// readRelease reads the reply to releaseRequest, and that of all who free a lock. A waiter of this proxy that
// got the lock by it is told so. After ErrAgain make the request again, and send it.
func (e *single) readRelease(reply []byte) (Released, error) {
	r, to, err := readFreed(reply)
	if to.waiter != "" {
		e.queues.handOver(to)
	}
	return r, err
}

// renew implements engine.
func (e *single) renew(by Caller, r *Renew, then func(Renewed, error) []byte) {
	slot, req := e.renewRequest(r)
	by.SendHome(slot, req, true, func(reply []byte) []byte {
		done, err := readRenewed(reply)
		e.stats.renew(done, err)
		return then(done, err)
	}, nil)
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

// breakLock implements engine. The request is not to be sent again: that could break the hold of the next
// one, if another proxy has asked for that.
func (e *single) breakLock(by Caller, name string, then func(bool, error) []byte) {
	slot, req := e.breakRequest(name)
	e.breakSome(by, slot, req, false, then)
}

// breakSome breaks as many holds as one script may, and then the others. broken: some are already.
func (e *single) breakSome(by Caller, slot int, req []byte, broken bool, then func(bool, error) []byte) {
	by.SendHome(slot, req, false, func(reply []byte) []byte {
		r, err := e.readRelease(reply)
		if err == ErrAgain {
			e.breakSome(by, slot, req, true, then)
			return nil
		}
		return then(broken || r.Whole, err)
	}, nil)
}

func (e *single) breakRequest(name string) (slot int, req []byte) {
	slot, c := e.names.eval(&scripts.Break, name, 4)
	e.frees(&c)
	id := e.names.ids.next()
	c.bytes(id[:])
	return slot, c.req
}

// inspect implements engine.
func (e *single) inspect(by Caller, name, token string, then func(State, error) []byte) {
	e.readPage(by, name, token, &pages{}, then)
}

// readPage asks for one page of a lock, and then for the next, until it has them all.
func (e *single) readPage(by Caller, name, token string, p *pages, then func(State, error) []byte) {
	slot, c := e.names.inspected(name, token, p)
	by.SendHome(slot, c.req, true, func(reply []byte) []byte {
		s, err := e.readLock(name, bytes.Clone(reply), p)
		if err == ErrAgain {
			e.readPage(by, name, token, p, then)
			return nil
		}
		return then(s, err)
	}, nil)
}

// state implements engine.
func (e *single) state(ctx context.Context, name string) (State, error) {
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

// keep implements engine.
func (e *single) keep(ctx context.Context, slot int, batch []question) ([]int64, error) {
	c := e.names.kept(batch, 0)
	reply, err := e.upstream.Do(ctx, slot, c.req, true)
	if err != nil {
		return nil, err
	}
	return readKept(reply, len(batch))
}

// detach implements engine.
func (e *single) detach(ctx context.Context, h holdName, keeper string) error {
	slot, c := e.names.eval(&scripts.Detach, h.name, 5)
	c.owner(h.token)
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

// scan implements engine.
func (e *single) scan(ctx context.Context, i int,
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

func (e *single) masters() int           { return e.upstream.Masters() }
func (e *single) master(slot int) string { return e.upstream.Master(slot) }

// listen implements engine.
func (e *single) listen(
	ctx context.Context, slot int, channel string, notify func(subscription.Event),
) (func(), error) {
	return e.upstream.Subscribe(ctx, slot, channel, notify)
}

// close implements engine.
func (e *single) close(context.Context) { e.late.running.Wait() }
