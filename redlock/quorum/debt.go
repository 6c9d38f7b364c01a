package quorum

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"lockproxy/redlock/scripts"
)

// debt is a request that a node still has to run. It takes back what an attempt left there, or may still
// leave there, or it gives the node the fence and the count that a majority has. No other request for the
// lock may be sent to the node ahead of it: the same token would find the hold of the attempt, and a re-entry
// would count it.
type debt struct {
	lock  string        // the key of the lock
	id    string        // of the request that is taken back, or ""
	call  *scripts.Call // idempotent
	until time.Time
	sent  bool // it is on its way, and runs before all that is sent to the node from now on
	paid  bool
}

// Bounds for the memory of one node. Debts beyond them are sent once; what they leave ends with its lease. A
// node that owes more than a few debts for one lock is not asked for that lock.
const (
	mostDebts       = 100_000
	mostDebtsOfLock = 32
)

// errIndebted is why a node was not asked for a lock. Nothing ran.
var errIndebted = errors.New("what failed attempts left there cannot be taken back yet")

// debts has the debts of one node, in order.
type debts struct {
	some atomic.Bool // byLock is not empty

	mu     sync.Mutex
	all    []*debt // including some that are paid
	byLock map[string][]*debt
	paying bool // a goroutine sends those that failed once more
}

// owe notes that node i has to run what. It does not send it yet.
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

// takeBack sends c, which takes back what the request id left, to each node, except those that owe that
// already.
func (q *Engine) takeBack(lock, id string, c *scripts.Call, until time.Time) {
	for i, ds := range q.debts {
		if !ds.owes(lock, id) {
			q.demand(i, q.owe(i, debt{lock: lock, id: id, call: c, until: until}))
		}
	}
}

// owes says that a debt takes back what the request id left.
func (ds *debts) owes(lock, id string) bool {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	return slices.ContainsFunc(ds.byLock[lock], func(d *debt) bool { return d.id == id })
}

// due returns the debts of a lock that must be sent before anything else for it. ok is false if there are too
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

// askFor sends a request for one lock, behind what the node owes for it.
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

// demand sends d to node i, and says whether d is on its way.
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

// settled notes whether a mandate has paid its debt.
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
			q.busy.Go(func() { q.pay(i, ds) }) // ends when nothing is left to send again, or when q.ctx ends
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

// next returns the first debt that must be sent again, or nil. It forgets those before it that have expired.
// mu is held.
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

// pay sends the debts of node i again, one by one, until the node has run them.
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
