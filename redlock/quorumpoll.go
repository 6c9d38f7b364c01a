package redlock

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/tidwall/redcon"

	"lockproxy/internal/resp"
)

// poll is one request to all nodes, and what those that vote have answered so far.
type poll struct {
	q       *Quorum
	r       rule
	req     []byte
	n, need int
	began   time.Time
	voted   []error // by node, when it was asked

	mu      sync.Mutex
	said    []resp.Value // of those that vote
	heard   int          // replies, of others too
	pending int
	foreign string // what one said of a key that is no lock
	fault   error  // the first one
	clear   bool
	done    chan struct{}      // closed when reply is
	then    func(reply []byte) // is told the reply, or nil
	reply   []byte
}

// poll asks all nodes until r finds it clear what they say together. The rest goes on.
func (q *Quorum) poll(args [][]byte, req []byte, r rule, then func(reply []byte)) *poll {
	n := len(q.nodes)
	p := &poll{
		q: q, r: r, req: req, n: n, need: q.need, began: time.Now(), pending: n,
		voted: make([]error, n), said: make([]resp.Value, 0, n), done: make(chan struct{}), then: then,
	}
	var next *attempt
	var lock []byte // of which what was taken back changes the answer
	if r.script == &releaseScript {
		lock = args[argLock]
	}
	passes := q.heirs != nil && r.script == &releaseScript
	if passes {
		next = q.heirs.heir(args[argLock], args[argRelease])
	}
	for i, node := range q.nodes {
		p.voted[i] = node.Vote()
		q.askFor(lock, i, req, i, p)
		if next != nil {
			next.ask(i)
		}
	}
	if passes {
		q.heirs.wakeHeir(args[argLock], args[argRelease])
	}
	return p
}

// await implements work.
func (p *poll) await(ctx context.Context) ([]byte, error) {
	select {
	case <-p.done:
		return p.reply, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Answer implements Answerer.
func (p *poll) Answer(i int, reply []byte, err error) {
	defer p.q.busy.Done()
	if p.q.heal(i, p.req, reply, err, p) {
		return
	}
	v, fault := p.q.word(i, reply, err)
	heard := fault == nil
	if heard {
		var vote error
		if p.r.clocked && len(v.Elems) > 0 {
			v.Elems, vote = p.q.clocked(i, v.Elems, p.began)
		} else {
			vote = p.q.nodes[i].Vote()
		}
		if fault = p.voted[i]; fault == nil {
			fault = vote
		}
	}
	p.count(v, heard, fault)
}

// count takes the answer of one node.
func (p *poll) count(v resp.Value, heard bool, fault error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pending--
	if heard {
		p.heard++
	}
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
	p.reply, p.clear = p.r.combine(p)
	switch {
	case p.clear:
	case p.foreign != "" && p.pending == 0:
		p.reply, p.clear = []byte("-"+p.foreign+"\r\n"), true
	case p.pending == 0 || len(p.said)+p.pending < p.need && p.foreign == "":
		why := ""
		if p.fault != nil {
			why = p.fault.Error()
		}
		p.reply, p.clear = []byte("-"+p.q.noQuorum(len(p.said), why)+"\r\n"), true
	}
	if p.clear {
		close(p.done)
		if p.then != nil {
			p.then(p.reply)
		}
	}
}

// left is what remains, in ms, of a lease of which most remained when the poll began.
func (p *poll) left(most int64) int64 {
	lease := ms(most)
	return max((lease - time.Since(p.began) - drift(lease)).Milliseconds(), 0)
}

// rule says how the replies of many nodes to a script become one.
type rule struct {
	script *Script
	// combine returns the reply once it is clear, whatever the nodes say that have not
	// answered yet.
	combine func(p *poll) (reply []byte, clear bool)
	clocked bool // behind what the script replies there is what the clock shows
}

// rules are those of all scripts but acquire and settle, which are an attempt.
//
// A majority has to say a thing for it to be said: two answers that exclude each other cannot both have one.
// What is on fewer nodes, since others could not be reached or because an attempt failed there, is never
// reported as held, nor is it as gone while nodes that are silent could make a majority of it: that is
// NOQUORUM.
var rules = []rule{
	{&releaseScript, combineRelease, false}, // Null: a majority has nothing; 0: a majority counted down; 1: it is off a majority
	{&renewScript, combineRenew, true},      // what remains on a majority; 0: a majority has nothing
	{&keepScript, combineKeep, true},        // the same, hold by hold; -1: a majority has another keeper
	{&detachScript, combineBreak, false},    // 0: a majority had nothing; 1: it is off a majority
	{&breakScript, combineBreak, false},     // the same
	{&inspectScript, combineInspect, false}, // the holds that a majority has
}

func integer(n int64) []byte { return fmt.Appendf(nil, ":%d\r\n", n) }

// tally is how many nodes said Null, 0, 1 and other integers.
func (p *poll) tally() (null, zero, one int) {
	for _, v := range p.said {
		switch {
		case v.Null():
			null++
		case v.Kind == ':' && v.Int == 0:
			zero++
		default:
			one++
		}
	}
	return null, zero, one
}

func combineRelease(p *poll) ([]byte, bool) {
	null, zero, one := p.tally()
	switch {
	case null >= p.need:
		return []byte("$-1\r\n"), true
	case zero >= p.need:
		return integer(0), true
	case null+one >= p.need && one > 0:
		for _, v := range p.said {
			if len(v.Elems) == 2 { // it was kept alive
				return redcon.AppendBulkString([]byte("*2\r\n:1\r\n"), v.Elems[1].Text()), true
			}
		}
		return integer(1), true
	}
	return nil, false
}

func combineBreak(p *poll) ([]byte, bool) {
	_, zero, one := p.tally()
	switch {
	case zero >= p.need:
		return integer(0), true
	case zero+one >= p.need:
		return integer(1), true
	}
	return nil, false
}

func combineRenew(p *poll) ([]byte, bool) {
	var left, fences []int64
	none, keeper := 0, false
	for _, v := range p.said {
		if len(v.Elems) != 2 || v.Elems[0].Int <= 0 {
			none++
			continue
		}
		keeper = keeper || v.Elems[1].Int > 0
		left, fences = append(left, v.Elems[0].Int), append(fences, v.Elems[1].Int)
	}
	switch {
	case none >= p.need:
		return integer(0), true
	case len(left) < p.need:
		return nil, false
	}
	remains := p.left(highest(left, p.need))
	if keeper && remains > 0 {
		return fmt.Appendf(nil, "*2\r\n:%d\r\n:%d\r\n", remains, commonest(fences)), true
	}
	return integer(remains), true
}

func combineKeep(p *poll) ([]byte, bool) {
	if len(p.said) < p.need {
		return nil, false
	}
	n := len(p.said[0].Elems)
	reply := fmt.Appendf(nil, "*%d\r\n", n)
	for i := range n {
		var left []int64
		gone, other := 0, 0
		for _, v := range p.said {
			switch {
			case len(v.Elems) != n:
				return nil, false
			case v.Elems[i].Int > 0:
				left = append(left, v.Elems[i].Int)
			case v.Elems[i].Int < 0:
				other++
			default:
				gone++
			}
		}
		said := int64(0)
		switch {
		case len(left) >= p.need:
			said = p.left(highest(left, p.need))
		case other >= p.need:
			said = -1
		case gone+other < p.need:
			return nil, false
		case other+p.pending >= p.need:
			return nil, false
		}
		reply = append(reply, integer(said)...)
	}
	return reply, true
}

// highest is the nth highest of all, which n of them have at least.
func highest(all []int64, n int) int64 {
	for i, v := range all {
		higher, same := 0, 0
		for j, w := range all {
			if w > v {
				higher++
			} else if w == v && j <= i {
				same++
			}
		}
		if higher+same == n {
			return v
		}
	}
	return 0
}

// commonest is what most of all are, the highest of those.
func commonest(all []int64) (most int64) {
	best := 0
	for _, v := range all {
		n := 0
		for _, w := range all {
			if v == w {
				n++
			}
		}
		if n > best || n == best && v > most {
			best, most = n, v
		}
	}
	return most
}

// isNoQuorum says that err is that too few nodes could be had.
func isNoQuorum(err error) bool {
	var said ReplyError
	return errors.As(err, &said) && strings.HasPrefix(string(said), "NOQUORUM ")
}
