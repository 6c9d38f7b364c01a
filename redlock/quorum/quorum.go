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
// What a majority cannot keep: order among proxies (the clients of one proxy are served first come, first
// served), and deadlocks between two readers of different proxies that both want to write: they are not told,
// and wait in vain. A WAIT ends with NOQUORUM as soon as one attempt does.
package quorum

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"lockproxy/internal/resp"
	"lockproxy/internal/subscription"
	"lockproxy/redlock"
	"lockproxy/redlock/scripts"
	"lockproxy/redlock/wait"
)

// Node is one independent master. It runs its requests in the order of the calls of Ask, and no request is
// ever sent twice. Safe for concurrent use.
type Node interface {
	Addr() string
	// Ask sends req, one whole command, which must not change any more. to gets the RESP2 reply, under tag,
	// or after timeout the reason why there is none. After that, or when the connection breaks, req may still
	// run, but before any request of a later Ask. A node that is known to be away fails at once. Ask does not
	// block.
	Ask(req []byte, timeout time.Duration, tag int, to Answerer)
	// Vote returns nil if the node's answers count. Otherwise it says why they do not: the node cannot be
	// reached, has lost its memory, or its clock has stepped. It never blocks.
	Vote() error
	// Heard notes the time that the node's clock showed in an answer to a request of the time asked, by this
	// machine's clock. Then it is Vote: an answer that shows a stepped clock does not itself count. It never
	// blocks.
	Heard(clock, asked time.Time) error
	// Distrust keeps the node from voting for as long as after a restart: why. It never blocks.
	Distrust(why string)
	// Subscribe listens on channel until cancel is called. It returns when the subscription is
	// confirmed. notify is called in order and must not block.
	Subscribe(ctx context.Context, channel string, notify func(subscription.Event)) (cancel func(), err error)
}

// Answerer is told what becomes of a request to a Node.
type Answerer interface {
	// Answer is called once for each request, maybe before Ask returns. It must not block, but may call Ask.
	// reply is valid during the call.
	Answer(tag int, reply []byte, err error)
}

// DefaultNodeTimeout is how long RedLock waits for one node by default.
const DefaultNodeTimeout = 50 * time.Millisecond

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
	nodes   []Node
	need    int // how many nodes are a majority
	o       Options
	names   *redlock.Names
	waiters *wait.Local
	fences  fences
	pending []*pendingQueue // by node

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
	q := &Engine{
		nodes: nodes, need: len(nodes)/2 + 1, o: o, names: names,
	}
	q.waiters = wait.NewLocal(q, names, o.MaxQueue, o.Log)
	q.fences.start(len(nodes))
	for range nodes {
		q.pending = append(q.pending, &pendingQueue{})
	}
	q.ctx, q.cancel = context.WithCancel(context.Background())
	return q
}

// minLease is the shortest lease of a lock: twenty times the timeout of a node.
func (q *Engine) minLease() time.Duration { return 20 * q.o.NodeTimeout }

// ErrSync is the answer to SYNC.
var ErrSync = redlock.ReplyError("ERR SYNC is not for RedLock: " +
	"a lock is on a majority of independent masters already, leave SYNC out")

// Confirm implements locks.engine.
func (q *Engine) Confirm(context.Context, *redlock.Acquire, redlock.Grant) (time.Duration, int, error) {
	return 0, 0, ErrSync
}

func (q *Engine) Masters() int      { return len(q.nodes) }
func (q *Engine) Master(int) string { return "" }

// Scan implements locks.engine. A node that cannot be reached counts as one without keys, as long as a
// majority can be: whatever is held is on one of that majority.
func (q *Engine) Scan(ctx context.Context, i int,
	cursor, glob string) (keys []string, next string, err error) {
	c := &scripts.Call{Req: scripts.ScanRequest(cursor, glob)}
	reply, err := q.do(ctx, i, c, max(q.o.NodeTimeout, time.Second))
	switch {
	case err == nil:
		return scripts.ReadKeys(reply)
	case ctx.Err() != nil:
		return nil, "", err
	}
	up := 0
	for j, n := range q.nodes {
		if j != i && n.Vote() == nil {
			up++
		}
	}
	if up < q.need {
		return nil, "", q.noQuorum(up, err.Error())
	}
	return nil, "0", nil
}

// ask sends req to node i, to run within NodeTimeout. Close waits until to has been told.
func (q *Engine) ask(i int, req []byte, to Answerer) {
	q.busy.Add(1)
	q.nodes[i].Ask(req, q.o.NodeTimeout, i, to)
}

// heal sends c to node i once more, with its source, if the node had lost the script. Then to is told the
// outcome of that instead.
func (q *Engine) heal(i int, c *scripts.Call, reply []byte, err error, to Answerer) bool {
	lost := lostScript(c, reply, err)
	if lost {
		q.ask(i, c.WithSource(), to)
	}
	return lost
}

// lostScript says that a node had lost the script of c, so that it did not run.
func lostScript(c *scripts.Call, reply []byte, err error) bool {
	return err == nil && c.Script != nil && bytes.HasPrefix(reply, []byte("-NOSCRIPT"))
}

// do sends c to node i alone and waits for the reply, or until ctx ends.
func (q *Engine) do(ctx context.Context, i int, c *scripts.Call, timeout time.Duration) ([]byte, error) {
	for req := c.Req; ; req = c.WithSource() {
		a := make(answered, 1)
		q.nodes[i].Ask(req, timeout, 0, a)
		select {
		case said := <-a:
			if !lostScript(c, said.reply, said.err) {
				return said.reply, said.err
			}
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// answered is the answer of one node.
type answered chan struct {
	reply []byte
	err   error
}

// Answer implements Answerer.
func (a answered) Answer(_ int, reply []byte, err error) {
	a <- struct {
		reply []byte
		err   error
	}{bytes.Clone(reply), err}
}

// word parses a node's answer for those who count answers. fault is why it does not count.
func (q *Engine) word(i int, reply []byte, err error) (v resp.Value, fault error) {
	if err != nil {
		return v, fmt.Errorf("%s: %w", q.nodes[i].Addr(), err)
	}
	if v, _, err = resp.Parse(reply); err != nil {
		return v, fmt.Errorf("%s: %w: %w", q.nodes[i].Addr(), scripts.ErrReply, err)
	}
	if v.Err() != "" && !strings.HasPrefix(v.Err(), "LOCKTYPE ") {
		return v, fmt.Errorf("%s: %w", q.nodes[i].Addr(), redlock.Said(v.Err()))
	}
	return v, nil
}

// clocked takes off the last of elems, the time of node i's clock when it answered a request of the time
// asked. It says whether the node votes.
func (q *Engine) clocked(i int, elems []resp.Value, asked time.Time) (rest []resp.Value, vote error) {
	last := len(elems) - 1
	return elems[:last], q.heard(i, elems[last].Int, asked)
}

// heard notes the time of node i's clock, in µs. It says whether the node votes.
func (q *Engine) heard(i int, clock int64, asked time.Time) (vote error) {
	q.fences.heard(i, clock)
	return q.nodes[i].Heard(time.UnixMicro(clock), asked)
}

// noQuorum is the error for too few nodes.
func (q *Engine) noQuorum(got int, why string) error {
	if why == "" {
		why = "they do not agree, and the others cannot be asked"
	}
	return redlock.ReplyError(fmt.Sprintf("NOQUORUM %d/%d of the nodes that it takes could be had (%s): "+
		"try again later, and look after the nodes of --redlock", got, q.need, oneLine(why)))
}

// oneLine makes text fit into an error reply.
func oneLine(text string) string {
	return strings.Map(func(c rune) rune {
		if c < ' ' {
			return ' '
		}
		return c
	}, text)
}

// drift bounds how much two machines' clocks may differ over a lease.
func drift(lease time.Duration) time.Duration { return lease/100 + 2*time.Millisecond }

// Close implements locks.engine: it waits until all that must be taken back is.
func (q *Engine) Close(ctx context.Context) {
	stop := context.AfterFunc(ctx, q.cancel)
	defer stop()
	q.busy.Wait()
	q.cancel()
	q.waiters.Close()
}
