// Package quorum keeps locks on a majority of independent masters: RedLock. A request goes to all of them at
// once, and what they answer is put together:
//
//	LOCK ----> claim.lua on all   --> a majority granted --> the same fence? --> granted
//	           (attempt.go)       |   (ballots.go)        \-> settle.lua on all --> granted
//	                              |                           (settle.go)
//	                              \-> not: cancel.lua on all, until the lease is over (outcome.go, debt.go)
//	others --> script on all --> what a majority says
//	           (poll.go)         (verdict.go)
//
// A majority is one of all nodes, whether they can be reached or not. What a node says that does
// not vote is not counted, neither for nor against, but it is told everything, so that it
// has what the others have when it votes again. Why fences rise: fence.go.
//
// What a majority cannot keep: proxies that wait for a lock get it in no order (the clients of one proxy do,
// first come, first served), and two readers of different proxies that both want to write are not told of the
// deadlock, but wait in vain. A WAIT ends with NOQUORUM as soon as one attempt does.
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

// Node is one independent master. Requests of one Node are run in the order in which Ask was
// called; nothing is ever sent twice. Safe for concurrent use.
type Node interface {
	Addr() string
	// Ask writes req, one whole command that does not change any more, and has to told its RESP2 reply, under
	// tag, or after timeout why there is none. Then, or when the connection breaks, req may run all the same,
	// later, but before any request that is passed to Ask later. A node that is known to be away fails at
	// once. Ask does not block.
	Ask(req []byte, timeout time.Duration, tag int, to Answerer)
	// Vote says whether the node's answers count (nil), or why not: it cannot be reached, has
	// lost its memory, its clock has stepped. It never blocks.
	Vote() error
	// Heard notes what the node's clock showed when it answered what it was asked at a time of this
	// machine's, and then is Vote: the very answer of a node whose clock has stepped does not count. It never
	// blocks.
	Heard(clock, asked time.Time) error
	// Subscribe listens on channel until cancel is called. It returns when the subscription is
	// confirmed. notify is called in order and must not block.
	Subscribe(ctx context.Context, channel string, notify func(subscription.Event)) (cancel func(), err error)
}

// Answerer is told what becomes of a request to a Node.
type Answerer interface {
	// Answer is called once for each request, maybe before Ask returns. It must not block; it
	// may ask on. reply is the answerer's to keep.
	Answer(tag int, reply []byte, err error)
}

// DefaultNodeTimeout is for how long RedLock waits for one node if nothing else is said.
const DefaultNodeTimeout = 50 * time.Millisecond

// Options are those of RedLock. Zero values mean the defaults.
type Options struct {
	NodeTimeout time.Duration // for how long one node is waited for; 0: DefaultNodeTimeout
	// NotRun says that an error of a Node means that the request has not run there and never will, so that
	// nothing need be taken back; nil: that is never known.
	NotRun func(error) bool

	MaxQueue   int // waiters of one lock
	MaxReaders int // readers of one lock
	Log        *slog.Logger
}

// Engine keeps locks on a majority of nodes. Safe for concurrent use.
type Engine struct {
	nodes   []Node
	need    int // nodes of a majority
	o       Options
	names   *redlock.Names
	waiters *wait.Local
	fences  fences
	debts   []*debts // by node

	ctx    context.Context // of what outlives those who wait for it
	cancel context.CancelFunc
	busy   sync.WaitGroup // requests under way, and who pays debts
}

// New is an Engine over nodes, an odd number of them.
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
		q.debts = append(q.debts, &debts{})
	}
	q.ctx, q.cancel = context.WithCancel(context.Background())
	return q
}

// minLease is the shortest lease of a lock: twenty times what a node may take to answer.
func (q *Engine) minLease() time.Duration { return 20 * q.o.NodeTimeout }

// ErrSync is what is said to those who want replicas to have a grant.
var ErrSync = redlock.ReplyError("ERR SYNC is not for RedLock: " +
	"a lock is on a majority of independent masters already, leave SYNC out")

// Confirm implements locks.engine.
func (q *Engine) Confirm(context.Context, *redlock.Acquire, redlock.Grant) (time.Duration, int, error) {
	return 0, 0, ErrSync
}

func (q *Engine) Masters() int      { return len(q.nodes) }
func (q *Engine) Master(int) string { return "" }

// Scan implements locks.engine. A node that cannot be had has no keys, if a majority can: whatever is held is
// on one of those.
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

// ask has node i run req within NodeTimeout. It counts as work of q until to has been told.
func (q *Engine) ask(i int, req []byte, to Answerer) {
	q.busy.Add(1)
	q.nodes[i].Ask(req, q.o.NodeTimeout, i, to)
}

// heal asks node i once more if it had lost the script of c. to is told of that instead.
func (q *Engine) heal(i int, c *scripts.Call, reply []byte, err error, to Answerer) bool {
	lost := lostScript(c, reply, err)
	if lost {
		q.ask(i, c.WithSource(), to)
	}
	return lost
}

// lostScript says that a node had lost the script of c, which has therefore not run.
func lostScript(c *scripts.Call, reply []byte, err error) bool {
	return err == nil && c.Script != nil && bytes.HasPrefix(reply, []byte("-NOSCRIPT"))
}

// do asks node i alone and waits for its reply, until ctx ends.
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

// answered is what one node has said.
type answered chan struct {
	reply []byte
	err   error
}

// Answer implements Answerer.
func (a answered) Answer(_ int, reply []byte, err error) {
	a <- struct {
		reply []byte
		err   error
	}{reply, err}
}

// word is a node's answer as all who count answers see it: what it is if it counts.
func (q *Engine) word(i int, reply []byte, err error) (v resp.Value, fault error) {
	if err != nil {
		return v, fmt.Errorf("%s: %w", q.nodes[i].Addr(), err)
	}
	if v, _, err = resp.Parse(reply); err != nil {
		return v, fmt.Errorf("%s: %w: %w", q.nodes[i].Addr(), scripts.ErrReply, err)
	}
	if v.Err() != "" && !strings.HasPrefix(v.Err(), "LOCKTYPE ") {
		return v, fmt.Errorf("%s: %w", q.nodes[i].Addr(), redlock.ReplyError(v.Err()))
	}
	return v, nil
}

// clocked takes the last of elems, which is what the clock of node i showed when it answered what it was
// asked at a time, and says whether the node votes.
func (q *Engine) clocked(i int, elems []resp.Value, asked time.Time) (rest []resp.Value, vote error) {
	last := len(elems) - 1
	return elems[:last], q.nodes[i].Heard(time.UnixMicro(elems[last].Int), asked)
}

// noQuorum is the error that too few nodes could be had.
func (q *Engine) noQuorum(got int, why string) error {
	if why == "" {
		why = "they do not agree, and the others cannot be asked"
	}
	return redlock.ReplyError(fmt.Sprintf("NOQUORUM %d/%d of the nodes that it takes could be had (%s): "+
		"try again later, and look after the nodes of --redlock", got, q.need, oneLine(why)))
}

// oneLine makes of text what an error reply may have in it.
func oneLine(text string) string {
	return strings.Map(func(c rune) rune {
		if c < ' ' {
			return ' '
		}
		return c
	}, text)
}

// drift is how much of a lease the clocks of two machines may disagree about.
func drift(lease time.Duration) time.Duration { return lease/100 + 2*time.Millisecond }

// Close implements locks.engine: it waits until what is to be taken back is.
func (q *Engine) Close(ctx context.Context) {
	stop := context.AfterFunc(ctx, q.cancel)
	defer stop()
	q.busy.Wait()
	q.cancel()
	q.waiters.Close()
}
