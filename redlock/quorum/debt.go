package quorum

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"lockproxy/redlock/scripts"
)

// debt is a request that a node has to run: it takes back what an attempt has made there, or is going to
// make, or gives it the fence and the count that a majority has. Until the node has run it, no other request
// for the lock may be sent there without it: the same token would find the hold of the attempt, and a
// re-entry would count it.
type debt struct {
	lock  string        // its key
	id    string        // of the request that it takes back, or ""
	call  *scripts.Call // may be sent several times
	until time.Time
	sent  bool // and as far as is known it arrives before all that the node is asked from now on
	paid  bool
}

// Bounds of what is remembered of one node: debts that come on top are sent once, and then left to their
// leases. A node that owes more than a few for one lock is not asked for that lock.
const (
	mostDebts       = 100_000
	mostDebtsOfLock = 32
)

// errIndebted is why a node was not asked for a lock. Nothing has run.
var errIndebted = errors.New("what failed attempts left there cannot be taken back yet")

// debts are those of one node, in order.
type debts struct {
	some atomic.Bool // byLock is not empty

	mu     sync.Mutex
	all    []*debt // with some that are paid
	byLock map[string][]*debt
	paying bool // a goroutine sends those again that have failed
}

// owe notes that node i has to run what takes something back, which is not sent yet.
func (q *Engine) owe(i int, what debt) *debt {
	d := &what
	ds := q.debts[i]
	ds.mu.Lock()
	defer ds.mu.Unlock()
	if len(ds.all) >= mostDebts || q.ctx.Err() != nil {
		return d
	}
	if ds.byLock == nil {
		ds.byLock = make(map[string][]*debt)
	}
	ds.all = append(ds.all, d)
	ds.byLock[d.lock] = append(ds.byLock[d.lock], d)
	ds.some.Store(true)
	return d
}

// takeBack has each node run c, which takes back what the request id has made there, unless it owes that
// already.
func (q *Engine) takeBack(lock, id string, c *scripts.Call, until time.Time) {
	for i, ds := range q.debts {
		if !ds.owes(lock, id) {
			q.demand(i, q.owe(i, debt{lock: lock, id: id, call: c, until: until}))
		}
	}
}

// owes says that a debt takes back what the request id has made.
func (ds *debts) owes(lock, id string) bool {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	return slices.ContainsFunc(ds.byLock[lock], func(d *debt) bool { return d.id == id })
}

// due are the debts of a lock that have to be sent before anything else for it. ok is false if there are too
// many.
func (ds *debts) due(lock string) (due []*debt, ok bool) {
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
	return due, len(of) <= mostDebtsOfLock
}

// askFor is ask for one lock: what the node owes for it runs before.
func (q *Engine) askFor(lock string, i int, req []byte, to Answerer) {
	due, ok := q.debts[i].due(lock)
	for _, d := range due {
		ok = q.demand(i, d) && ok
	}
	if !ok {
		q.busy.Add(1)
		to.Answer(i, nil, errIndebted)
		return
	}
	q.ask(i, req, to)
}

// demand sends d to node i. It reports whether d is on its way.
func (q *Engine) demand(i int, d *debt) bool {
	o := &mandate{q: q, call: d.call, debt: d}
	q.ask(i, d.call.Req, o)
	ds := q.debts[i]
	ds.mu.Lock()
	defer ds.mu.Unlock()
	if !o.failed {
		d.sent = true
	}
	return !o.failed
}

// settled notes what became of a mandate to pay its debt.
func (q *Engine) settled(i int, o *mandate, paid bool) {
	ds, d := q.debts[i], o.debt
	ds.mu.Lock()
	defer ds.mu.Unlock()
	switch {
	case paid:
		ds.clear(d)
	case !d.paid:
		o.failed, d.sent = true, false
		if !ds.paying && len(ds.all) > 0 && q.ctx.Err() == nil {
			ds.paying = true
			q.busy.Go(func() { q.pay(i, ds) }) // ends when there is nothing to send again, or q.ctx does
		}
	}
}

// clear forgets d. mu is held.
func (ds *debts) clear(d *debt) {
	if d.paid {
		return
	}
	d.paid = true
	of := ds.byLock[d.lock]
	if at := slices.Index(of, d); at >= 0 {
		of = slices.Delete(of, at, at+1)
	}
	if len(of) > 0 {
		ds.byLock[d.lock] = of
	} else {
		delete(ds.byLock, d.lock)
	}
	for len(ds.all) > 0 && ds.all[0].paid {
		ds.all[0] = nil
		ds.all = ds.all[1:]
	}
	if len(ds.all) == 0 {
		ds.all, ds.byLock = nil, nil
		ds.some.Store(false)
	}
}

// next is the first debt that has to be sent again, or nil. Those before it that are over by themselves are
// forgotten. mu is held.
func (ds *debts) next() *debt {
	now := time.Now()
	for len(ds.all) > 0 && !now.Before(ds.all[0].until) {
		ds.clear(ds.all[0])
	}
	for _, d := range ds.all {
		if !d.sent && !d.paid && now.Before(d.until) {
			return d
		}
	}
	return nil
}

// pay sends debts to node i again, one by one, until it has run them.
func (q *Engine) pay(i int, ds *debts) {
	for pause := 20 * time.Millisecond; ; {
		ds.mu.Lock()
		d := ds.next()
		if d == nil || q.ctx.Err() != nil {
			ds.paying = false
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
