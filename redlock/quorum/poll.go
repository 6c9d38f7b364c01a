package quorum

import (
	"bytes"
	"slices"
	"sync"
	"time"

	"lockproxy/internal/resp"
	"lockproxy/redlock"
	"lockproxy/redlock/scripts"
)

// nodeReplies is what the nodes have said to a script that is run on all of them.
type nodeReplies struct {
	q     *Engine
	began time.Time
	said  []resp.Value // answers of those that vote
	// Nodes that have not answered yet, whether they vote or not.
	pending int
}

// poll runs one script on all nodes and combines the answers of those that vote. It is run once.
type poll[T any] struct {
	nodeReplies
	call    scripts.Call
	clocked bool     // the reply ends with the time of the node's clock
	lock    string   // the key of the lock, if taking back an attempt changes the answer; otherwise ""
	next    *attempt // sent to each node right behind the script, if not nil
	asked   func()   // called when all nodes have been asked, or nil
	// verdict is the outcome, and true once the answers that are missing cannot change it. mu is held.
	verdict func(*nodeReplies) (outcome T, clear bool)
	// more, if not nil, adds an answer of node i to its earlier ones, and returns what the node is asked
	// next, nil when it is done. For one node it is called by one goroutine at a time.
	more  func(i int, v resp.Value) (all resp.Value, next *scripts.Call)
	then  func(is T, err error) // is told the outcome once it is clear; must not block
	voted []error               // by node: why it did not vote when it was asked
	space [5]error              // of voted, for most

	mu      sync.Mutex // of said and pending, too
	foreign string     // the error of a node whose key is no lock
	fault   error      // the first failure
	clear   bool
}

// newPoll returns a poll that has not been sent yet.
func newPoll[T any](q *Engine, c scripts.Call, verdict func(*nodeReplies) (T, bool)) *poll[T] {
	n := len(q.nodes)
	p := &poll[T]{nodeReplies: nodeReplies{q: q, pending: n, said: make([]resp.Value, 0, n)}, call: c,
		verdict: verdict}
	p.voted = append(p.space[:0], make([]error, n)...)
	return p
}

// startPoll sends the script to all nodes. then is told the outcome; it must not block. Nodes may answer
// before it returns. All are asked, whatever the first ones say: each is to have what the others have.
func (p *poll[T]) startPoll(then func(is T, err error)) {
	p.then, p.began = then, time.Now()
	for i, node := range p.q.nodes {
		// before it is asked, for its Answer reads this
		p.voted[i] = node.Vote()
		p.q.nodes[i].askFor(p.lock, p.call.Req, p)
		if p.next != nil {
			p.next.askVote(i)
		}
	}
	if p.asked != nil {
		p.asked()
	}
}

// Answer implements NodeAnswerer. A node whose script was lost, or that has more to say, is asked again, and
// counts as pending until it has answered that.
func (p *poll[T]) Answer(i int, reply []byte, err error) {
	defer p.q.busy.Done()
	if p.q.nodes[i].heal(&p.call, reply, err, p) {
		return
	}
	if !bytes.HasPrefix(reply, []byte{':'}) { // the answer is kept, and points into the reply
		reply = bytes.Clone(reply)
	}
	v, fault := p.q.nodes[i].word(reply, err)
	if v.Kind == ':' {
		v.Str = nil
	}
	if fault == nil {
		var vote error
		if p.clocked && len(v.Elems) > 0 {
			v.Elems, vote = p.q.nodes[i].clocked(v.Elems, p.began)
		} else {
			vote = p.q.nodes[i].Vote()
		}
		if fault = p.voted[i]; fault == nil {
			fault = vote
		}
	}
	if fault == nil && p.more != nil && v.Err() == "" {
		var next *scripts.Call
		if v, next = p.more(i, v); next != nil {
			p.q.nodes[i].askNode(next.Req, p)
			return
		}
	}
	p.countAnswer(v, fault)
}

// countAnswer takes the answer of one node. fault is why it does not count. Answers that come once the
// outcome is clear change nothing.
func (p *poll[T]) countAnswer(v resp.Value, fault error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pending--
	switch {
	case fault != nil && p.fault == nil:
		p.fault = fault
	case fault != nil:
	case v.Err() != "":
		p.foreign = v.Err()
	default:
		p.said = append(p.said, v)
	}
	if p.clear {
		return
	}
	var none T
	var err error
	is, clear := p.verdict(&p.nodeReplies)
	switch {
	case clear:
	// A key that holds no lock is told only if no majority says anything else.
	case p.foreign != "" && p.pending == 0:
		is, err = none, redlock.ReplyError(p.foreign)
	case p.pending == 0 || len(p.said)+p.pending < p.q.need && p.foreign == "":
		why := ""
		if p.fault != nil {
			why = p.fault.Error()
		}
		is, err = none, p.q.noQuorum(len(p.said), why)
	default:
		return
	}
	p.clear = true
	p.then(is, err)
}

// leaseLeft returns what is left, in ms, of a lease of which most was left when the poll began. It counts
// from when the poll began, since a node may have answered at any time after that.
func (p *nodeReplies) leaseLeft(most int64) int64 {
	lease := ms(most)
	return max((lease - time.Since(p.began) - drift(lease)).Milliseconds(), 0)
}

// highest returns the nth highest of all: n of them are at least that high; 0 if there are fewer.
func highest(all []int64, n int) int64 {
	if len(all) < n {
		return 0
	}
	var space [8]int64
	sorted := append(space[:0], all...)
	slices.Sort(sorted)
	return sorted[len(sorted)-n]
}

func ms(n int64) time.Duration { return time.Duration(n) * time.Millisecond }
