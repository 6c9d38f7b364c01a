package quorum

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

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
	until time.Time
	sent  bool // it is on its way, and runs before all that is sent to the node from now on
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

	mu      sync.Mutex
	all     []*pending // including some that are done
	byLock  map[string][]*pending
	sending bool // a goroutine sends those that failed once more
}

// notePending notes a request that node i has to run. It does not send it yet.
func (q *Engine) notePending(i int, what pending) *pending {
	d := &what
	ds := q.pending[i]
	ds.mu.Lock()
	defer ds.mu.Unlock()
	if len(ds.all) >= mostPending || q.ctx.Err() != nil {
		return d
	}
	if ds.byLock == nil {
		ds.byLock = make(map[string][]*pending)
	}
	ds.all = append(ds.all, d)
	ds.byLock[d.lock] = append(ds.byLock[d.lock], d)
	ds.some.Store(true)
	return d
}

// takeBack has each node run what, which takes back a request, except those for which that is pending
// already.
func (q *Engine) takeBack(what pending) {
	for i, ds := range q.pending {
		if !ds.has(what.lock, func(d *pending) bool { return d.id == what.id }) {
			q.sendPending(i, q.notePending(i, what))
		}
	}
}

// has says that there is such a pending request for a lock.
func (ds *pendingQueue) has(lock string, such func(d *pending) bool) bool {
	if !ds.some.Load() {
		return false
	}
	ds.mu.Lock()
	defer ds.mu.Unlock()
	return slices.ContainsFunc(ds.byLock[lock], such)
}

// owes says that what a request of the token left is not taken back yet.
func (ds *pendingQueue) owes(lock, token string) bool {
	return ds.has(lock, func(d *pending) bool { return d.id != "" && d.token == token })
}

// mayHold says that a may hold its lock by an attempt that was given up: too few nodes are known to have
// nothing of it.
func (q *Engine) mayHold(a *redlock.Acquire) bool {
	left, lock := 0, q.names.Place(a.Name).Key
	for _, ds := range q.pending {
		if ds.owes(lock, a.Token) {
			left++
		}
	}
	return left >= q.need
}

// undoing is the verb that takes back what an attempt left: it is done when a majority has run undo, and with
// that what was pending before.
func (q *Engine) undoing(lock string, undo *scripts.Call) verb[bool] {
	p := q.newPoll(*undo)
	p.lock = lock
	return verb[bool]{p, func(p *poll) (done, clear bool) {
		done = len(p.said) >= p.need
		return done, done
	}}
}

// due returns the pending requests of a lock that must be sent before anything else for it. ok is false if
// there are too many.
func (ds *pendingQueue) due(lock string) (due []*pending, ok bool) {
	if !ds.some.Load() {
		return nil, true
	}
	ds.mu.Lock()
	defer ds.mu.Unlock()
	of := ds.byLock[lock]
	for _, d := range of {
		if !d.sent {
			due = append(due, d)
		}
	}
	return due, len(of) <= mostPendingOfLock
}

// askFor sends a request for one lock, behind what is pending for it.
func (q *Engine) askFor(lock string, i int, req []byte, to Answerer) {
	due, ok := q.pending[i].due(lock)
	for _, d := range due {
		ok = q.sendPending(i, d) && ok
	}
	if !ok {
		q.busy.Add(1)
		to.Answer(i, nil, errPending)
		return
	}
	q.ask(i, req, to)
}

// sendPending sends d to node i, and says whether d is on its way.
func (q *Engine) sendPending(i int, d *pending) bool {
	o := &background{q: q, call: d.call, pending: d}
	q.ask(i, d.call.Req, o)
	ds := q.pending[i]
	ds.mu.Lock()
	defer ds.mu.Unlock()
	if !o.failed {
		d.sent = true
	}
	return !o.failed
}

// settled notes whether a pending request has run.
func (q *Engine) settled(i int, o *background, done bool) {
	ds, d := q.pending[i], o.pending
	ds.mu.Lock()
	defer ds.mu.Unlock()
	switch {
	case done:
		ds.clear(d)
	case !d.done:
		o.failed, d.sent = true, false
		if !ds.sending && len(ds.all) > 0 && q.ctx.Err() == nil {
			ds.sending = true
			// It ends when nothing is left to send again, or when q.ctx ends.
			q.busy.Go(func() { q.sendAgain(i, ds) })
		}
	}
}

// clear forgets d. mu is held.
func (ds *pendingQueue) clear(d *pending) {
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

// next returns the first request that must be sent again, or nil. It forgets those before it that have
// expired. mu is held.
func (ds *pendingQueue) next() *pending {
	now := time.Now()
	for len(ds.all) > 0 && !now.Before(ds.all[0].until) {
		ds.clear(ds.all[0])
	}
	for _, d := range ds.all {
		if !d.sent && !d.done && now.Before(d.until) {
			return d
		}
	}
	return nil
}

// sendAgain sends the pending requests of node i, one by one, until the node has run them.
func (q *Engine) sendAgain(i int, ds *pendingQueue) {
	for pause := 20 * time.Millisecond; ; {
		ds.mu.Lock()
		d := ds.next()
		if d == nil || q.ctx.Err() != nil {
			ds.sending = false
			ds.mu.Unlock()
			return
		}
		ds.mu.Unlock()
		reply, err := q.do(q.ctx, i, d.call, q.o.NodeTimeout)
		if err == nil && len(reply) > 0 && reply[0] != '-' {
			ds.mu.Lock()
			ds.clear(d)
			ds.mu.Unlock()
			pause = 20 * time.Millisecond
			continue
		}
		select {
		case <-time.After(pause):
		case <-q.ctx.Done():
		}
		pause = min(2*pause, time.Second)
	}
}
