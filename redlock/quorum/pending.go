package quorum

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"lockproxy/internal/sleep"
	"lockproxy/redlock"
	"lockproxy/redlock/scripts"
)

// pending is a request that a node still has to run. It takes back what an attempt left there, or may still
// leave there, or it gives the node the fence and the count that a majority has. No other request for the
// lock may be sent to the node ahead of it: the same token would find the hold of the attempt, and a re-entry
// would count it.
type pending struct {
	lock  string        // the key of the lock
	id    string        // of the request that is taken back, or ""
	token string        // of that request
	call  *scripts.Call // idempotent
	until time.Time     // nothing can be left then
	sent  bool          // it is on its way, and runs before all that is sent to the node from now on
	done  bool
}

// Bounds for the pending requests of one node. Requests beyond them are sent once; if one is lost, what it
// should have taken back ends with its lease. A node with more than a few pending for one lock is not asked
// for that lock.
const (
	mostPending       = 100_000
	mostPendingOfLock = 32
)

// errPending is why a node was not asked for a lock. Nothing ran.
var errPending = errors.New("what failed attempts left there cannot be taken back yet")

// pendingQueue has the pending requests of one node, in order.
type pendingQueue struct {
	some atomic.Bool // byLock is not empty

	mu  sync.Mutex
	all []*pending // including some that are done
	// By key of the lock, in the order in which they were noted: only those that are not done.
	byLock  map[string][]*pending
	sending bool // a goroutine sends those that failed once more
}

// notePending notes that the node has to run c for the lock of a: it takes back the attempt id, unless that
// is "". It does not send it yet. A queue that is full, or that of a closed Engine, does not keep it: then it
// is sent once.
func (n *votingNode) notePending(lock string, a *redlock.Acquire, id string, c *scripts.Call) *pending {
	d := &pending{lock: lock, id: id, token: a.Token, call: c, until: time.Now().Add(a.Lease + time.Second)}
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.all) >= mostPending || n.q.ctx.Err() != nil {
		return d
	}
	if n.byLock == nil {
		n.byLock = make(map[string][]*pending)
	}
	n.all = append(n.all, d)
	n.byLock[d.lock] = append(n.byLock[d.lock], d)
	n.some.Store(true)
	return d
}

// hasPending says that there is such a pending request for a lock. Nearly always there is none at all, which
// some tells without mu.
func (ds *pendingQueue) hasPending(lock string, such func(d *pending) bool) bool {
	if !ds.some.Load() {
		return false
	}
	ds.mu.Lock()
	defer ds.mu.Unlock()
	return slices.ContainsFunc(ds.byLock[lock], such)
}

// owesUndo says that what a request of the token left is not taken back yet.
func (ds *pendingQueue) owesUndo(lock, token string) bool {
	return ds.hasPending(lock, func(d *pending) bool { return d.id != "" && d.token == token })
}

// mayHold says that a may hold its lock by an attempt that was given up: too few nodes are known to have
// nothing of it.
func (q *Engine) mayHold(a *redlock.Acquire) bool {
	left, lock := 0, q.names.Place(a.Name).Key
	for _, n := range q.nodes {
		if n.owesUndo(lock, a.Token) {
			left++
		}
	}
	return left >= q.need
}

// undoing takes back what an attempt left: it is done when a majority has run undo, and with that what was
// pending before.
func (q *Engine) undoing(lock string, undo *scripts.Call) *poll[bool] {
	p := newPoll(q, *undo, func(p *nodeReplies) (done, clear bool) {
		done = len(p.said) >= q.need
		return done, done
	})
	p.lock = lock
	return p
}

// duePending returns the pending requests of a lock that must be sent before anything else for it. ok is
// false if there are too many. What is sent is not due, since a Node runs its requests in their order.
func (ds *pendingQueue) duePending(lock string) (duePending []*pending, ok bool) {
	if !ds.some.Load() {
		return nil, true
	}
	ds.mu.Lock()
	defer ds.mu.Unlock()
	of := ds.byLock[lock]
	for _, d := range of {
		if !d.sent {
			duePending = append(duePending, d)
		}
	}
	return duePending, len(of) <= mostPendingOfLock
}

// askFor sends the node a request for one lock, behind what is pending for it.
func (n *votingNode) askFor(lock string, req []byte, to NodeAnswerer) {
	due, ok := n.duePending(lock)
	for _, d := range due {
		ok = n.sendPending(d) && ok
	}
	if !ok {
		n.q.busy.Add(1) // as askNode does, because Answer counts it down
		to.Answer(n.tag, nil, errPending)
		return
	}
	n.askNode(req, to)
}

// sendPending sends d, and says whether d is on its way. Its answer may be there before this returns, and
// then counts: a failure must not be noted as sent.
func (n *votingNode) sendPending(d *pending) bool {
	o := &background{n: n, d: d}
	n.askNode(d.call.Req, o)
	n.mu.Lock()
	defer n.mu.Unlock()
	if !o.failed {
		d.sent = true
	}
	return !o.failed
}

// background is a pending request on its way.
type background struct {
	n      *votingNode
	d      *pending
	failed bool // guarded by pendingQueue.mu
}

// Answer implements NodeAnswerer.
func (o *background) Answer(_ int, reply []byte, err error) {
	n, d := o.n, o.d
	defer n.q.busy.Done()
	if n.heal(d.call, reply, err, o) {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case ran(reply, err):
		n.clearPending(d)
	case !d.done:
		o.failed, d.sent = true, false
		if !n.sending && len(n.all) > 0 && n.q.ctx.Err() == nil {
			n.sending = true
			n.q.busy.Go(n.sendAgain) // ends when nothing is left to send again, or when q.ctx ends
		}
	}
}

// ran says that a script has run, by its reply.
func ran(reply []byte, err error) bool { return err == nil && len(reply) > 0 && reply[0] != '-' }

// clearPending forgets d. mu is held. all is cut at the front alone, which is cheap. Those behind it stay in
// there as done.
func (ds *pendingQueue) clearPending(d *pending) {
	if d.done {
		return
	}
	d.done = true
	of := ds.byLock[d.lock]
	if at := slices.Index(of, d); at >= 0 {
		of = slices.Delete(of, at, at+1)
	}
	if len(of) > 0 {
		ds.byLock[d.lock] = of
	} else {
		delete(ds.byLock, d.lock)
	}
	for len(ds.all) > 0 && ds.all[0].done {
		ds.all[0] = nil
		ds.all = ds.all[1:]
	}
	if len(ds.all) == 0 {
		ds.all, ds.byLock = nil, nil
		ds.some.Store(false)
	}
}

// nextPending returns the first request that must be sent again, or nil. It forgets those before it that have
// expired. mu is held. One that is sent is left alone: its Answer says what becomes of it.
func (ds *pendingQueue) nextPending() *pending {
	now := time.Now()
	for len(ds.all) > 0 && !now.Before(ds.all[0].until) {
		ds.clearPending(ds.all[0])
	}
	for _, d := range ds.all {
		if !d.sent && !d.done && now.Before(d.until) {
			return d
		}
	}
	return nil
}

// sendAgain sends the pending requests, one by one, until the node has run them. While the node does not run
// them, the pauses grow from 20 ms to a second. There is one such goroutine for a node (sending).
func (n *votingNode) sendAgain() {
	for pause := 20 * time.Millisecond; ; {
		n.mu.Lock()
		d := n.nextPending()
		if d == nil || n.q.ctx.Err() != nil {
			n.sending = false
			n.mu.Unlock()
			return
		}
		n.mu.Unlock()
		if ran(n.askAndWait(n.q.ctx, d.call, n.q.o.NodeTimeout)) {
			n.mu.Lock()
			n.clearPending(d)
			n.mu.Unlock()
			pause = 20 * time.Millisecond
			continue
		}
		sleep.For(n.q.ctx, pause)
		pause = min(2*pause, time.Second)
	}
}
