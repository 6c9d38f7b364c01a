package pipe

import (
	"context"
	"lockproxy/cluster"
	"sync"
	"time"
)

// inquiryMost is how many connections a question is about at most.
const inquiryMost = 512

// inquiry is what one loop asks a node: about these connections.
type inquiry struct {
	ids    []string
	answer func(settled map[string]string, err error) // may have more than the ids
}

// inquiries asks each node one question at a time, for all loops. Safe for concurrent use.
type inquiries struct {
	mu      sync.Mutex
	waiting map[string][]inquiry // by the address of each node that is asked: what it is to be asked next
}

// put has the node at addr asked, together with what others ask it. It does not block. ctx ends with the
// loops, limit bounds one question.
func (q *inquiries) put(ctx context.Context, nodes cluster.DialNode, limit time.Duration, addr string,
	one inquiry,
) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.waiting == nil {
		q.waiting = make(map[string][]inquiry)
	}
	before, asked := q.waiting[addr]
	q.waiting[addr] = append(before, one)
	if asked {
		return
	}
	go func() { // ends with the last question, each of which the limit or ctx ends
		for all := q.next(addr); len(all) > 0; all = q.next(addr) {
			var ids []string
			for _, one := range all {
				ids = append(ids, one.ids...)
			}
			bounded, cancel := context.WithTimeout(ctx, limit)
			settled, err := cluster.Settled(bounded, nodes, addr, ids)
			cancel()
			for _, one := range all {
				one.answer(settled, err)
			}
		}
	}()
}

// next takes what the node at addr is to be asked now: nothing ends it.
func (q *inquiries) next(addr string) (all []inquiry) {
	q.mu.Lock()
	defer q.mu.Unlock()
	waiting, n := q.waiting[addr], 0
	for len(all) < len(waiting) && n+len(waiting[len(all)].ids) <= inquiryMost {
		n += len(waiting[len(all)].ids)
		all = waiting[:len(all)+1]
	}
	if q.waiting[addr] = waiting[len(all):]; len(all) == 0 {
		delete(q.waiting, addr)
	}
	return all
}
