// Package quorum keeps locks on a majority of independent masters (RedLock). A request goes to all of them at
// once, and their answers are combined:
//
//	LOCK ----> claim.lua on all   --> a majority granted --> the same fence? --> granted
//	           (attempt.go)       |   (ballots.go)        \-> settle.lua on all --> granted
//	                              |                           (settle.go)
//	                              \-> not: cancel.lua on all, until the lease is over (pending.go)
//	others --> script on all --> what a majority says
//	           (poll.go)         (verdict.go)
//
// A majority is more than half of all nodes, reachable or not. The answer of a node that does not vote counts
// neither for nor against. But it is sent every request, so that it has what the others have by the time it
// votes again. Why fences rise: fence.go.
//
// The nouns: a node is one master. An attempt is one request for a lock that goes to all nodes, a ballot is
// what one node answers to it, a proposal is a round in which the nodes are asked to agree on a fence. A poll
// is any other script on all nodes, a verdict is what their answers mean together. A pending request is one
// that a node still has to run before it is asked for that lock again.
//
// What a majority cannot keep: order among proxies (the clients of one proxy are served first come, first
// served), and deadlocks between two readers of different proxies that both want to write: they are not told,
// and wait in vain. A WAIT ends with NOQUORUM as soon as one attempt does.
package quorum

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"lockproxy/redlock"
	"lockproxy/redlock/scripts"
	"lockproxy/redlock/wait"
)

// DefaultNodeTimeout is how long RedLock waits for one node by default, be it busy, or far away. What that
// takes is taken off the lease, so a lease lasts LeastLeases times as long at least.
const (
	DefaultNodeTimeout = 250 * time.Millisecond
	LeastLeases        = 4
)

// Options are those of RedLock. Zero values mean the defaults.
type Options struct {
	NodeTimeout time.Duration // how long to wait for one node; 0: DefaultNodeTimeout
	// NotRun says that an error of a Node means that the request has not run there and never will, so that
	// nothing need be taken back. nil: that is never known.
	NotRun func(error) bool

	MaxQueue   int // waiters of one lock, at most
	MaxReaders int // readers of one lock, at most
	Log        *slog.Logger
}

// Engine keeps locks on a majority of nodes. Safe for concurrent use.
type Engine struct {
	// By number, which is also the tag of their answers. The slice never changes.
	nodes   []*votingNode
	need    int // how many nodes are a majority
	o       Options
	names   *redlock.Names
	waiters *wait.Local
	fences  fences

	// Close cancels ctx at the latest when its own context ends; then what is still pending is left to the
	// leases.
	ctx    context.Context // of work that nobody waits for any more
	cancel context.CancelFunc
	busy   sync.WaitGroup // requests under way, and goroutines that send pending requests again
}

// New returns an Engine over nodes, of which there must be an odd number.
func New(nodes []Node, names *redlock.Names, o Options) *Engine {
	o.NodeTimeout = cmp.Or(o.NodeTimeout, DefaultNodeTimeout)
	if o.NotRun == nil {
		o.NotRun = func(error) bool { return false }
	}
	q := &Engine{need: len(nodes)/2 + 1, o: o, names: names}
	q.waiters = wait.NewLocal(q, names, o.MaxQueue, o.Log)
	q.fences.startFences(len(nodes), q.need)
	for i, n := range nodes {
		q.nodes = append(q.nodes, &votingNode{Node: n, q: q, tag: i})
	}
	q.ctx, q.cancel = context.WithCancel(context.Background())
	return q
}

// ErrSync is the answer to SYNC.
var ErrSync = redlock.ReplyError("ERR SYNC is not for RedLock: " +
	"a lock is on a majority of independent masters already, leave SYNC out")

// Confirm implements locks.engine.
func (q *Engine) Confirm(context.Context, *redlock.Acquire, redlock.Grant, time.Duration) (
	left time.Duration, acked int, err error) {
	return 0, 0, ErrSync
}

func (q *Engine) Masters() int      { return len(q.nodes) }
func (q *Engine) Master(int) string { return "" }

// Scan implements locks.engine. A node that cannot be reached counts as one without keys, as long as a
// majority can be: whatever is held is on one of that majority. A late answer does no harm here, since no
// lease runs meanwhile: so a node has a second at least.
func (q *Engine) Scan(ctx context.Context, i int,
	cursor, glob string) (keys []string, next string, err error) {
	c := &scripts.Call{Req: scripts.ScanRequest(cursor, glob)}
	reply, err := q.nodes[i].askAndWait(ctx, c, max(q.o.NodeTimeout, time.Second))
	switch {
	case err == nil:
		return scripts.ReadKeys(reply)
	case ctx.Err() != nil:
		return nil, "", err
	}
	up, _ := q.voters()
	if q.nodes[i].Vote() == nil { // it did not answer
		up--
	}
	if up < q.need {
		return nil, "", q.noQuorum(up, err.Error())
	}
	return nil, "0", nil
}

// noQuorum is the error for too few nodes. got is how many could be had; why is what one of the others said,
// "" if nobody said anything.
func (q *Engine) noQuorum(got int, why string) error {
	if why == "" {
		why = "they do not agree, and the others cannot be asked"
	}
	return redlock.ReplyError(fmt.Sprintf("NOQUORUM %d/%d of the nodes that it takes could be had (%s): "+
		"try again later, and look after the nodes of --redlock", got, q.need, oneLine(why)))
}

// oneLine makes text fit into an error reply. A line break of a node's error would end that reply, and the
// rest would be taken for the next one.
func oneLine(text string) string {
	return strings.Map(func(c rune) rune {
		if c < ' ' {
			return ' '
		}
		return c
	}, text)
}

// drift bounds how much two machines' clocks may differ over a lease. It is that of the reference
// implementation (redlock-rb): a hundredth of the lease, and 2 ms because Redis ends leases by whole
// milliseconds.
func drift(lease time.Duration) time.Duration { return lease/100 + 2*time.Millisecond }

// Close implements locks.engine: it waits until all that must be taken back is. Late answers of nodes count
// as work, so none finds a closed Engine.
func (q *Engine) Close(ctx context.Context) {
	stop := context.AfterFunc(ctx, q.cancel)
	defer stop()
	q.busy.Wait()
	q.cancel()
	q.waiters.Close()
}
