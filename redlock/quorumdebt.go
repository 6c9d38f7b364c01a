package redlock

import (
	"sync"
	"time"
)

// debt is a request that a node has to be told, as soon as it can be had: to take back what an attempt may
// have made there. After until it is over by itself.
type debt struct {
	req   []byte
	until time.Time
}

// mostDebts bounds what is remembered of one node: those that come on top are left to their leases.
const mostDebts = 100_000

// debts are those of one node, in order. They are paid one by one, by one goroutine.
type debts struct {
	mu     sync.Mutex
	all    []debt
	paying bool
}

// owe has d told to node i.
func (q *Quorum) owe(i int, d debt) {
	ds := q.debts[i]
	ds.mu.Lock()
	defer ds.mu.Unlock()
	if len(ds.all) >= mostDebts || q.ctx.Err() != nil {
		return
	}
	ds.all = append(ds.all, d)
	if !ds.paying {
		ds.paying = true
		q.busy.Go(func() { q.pay(i, ds) }) // ends when nothing is owed, or q.ctx does
	}
}

// pay tells node i what it is owed.
func (q *Quorum) pay(i int, ds *debts) {
	for pause := 20 * time.Millisecond; ; {
		ds.mu.Lock()
		for len(ds.all) > 0 && !time.Now().Before(ds.all[0].until) {
			ds.all = ds.all[1:]
		}
		if len(ds.all) == 0 || q.ctx.Err() != nil {
			ds.all, ds.paying = nil, false
			ds.mu.Unlock()
			return
		}
		d := ds.all[0]
		ds.mu.Unlock()
		reply, err := q.do(q.ctx, i, d.req, q.o.NodeTimeout)
		if err == nil && len(reply) > 0 && reply[0] != '-' {
			ds.mu.Lock()
			ds.all = ds.all[1:]
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
