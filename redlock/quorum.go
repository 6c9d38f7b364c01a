package redlock

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"lockproxy/internal/resp"
	"lockproxy/internal/subscription"
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

// DefaultNodeTimeout is for how long a Quorum waits for one node if nothing else is said.
const DefaultNodeTimeout = 50 * time.Millisecond

// QuorumOptions configure a Quorum. Zero values mean the defaults.
type QuorumOptions struct {
	NodeTimeout time.Duration // for how long one node is waited for; 0: DefaultNodeTimeout
	// NotRun says that an error of a Node means that the request has not run there and never will, so that
	// nothing need be taken back; nil: that is never known.
	NotRun func(error) bool
	Log    *slog.Logger
}

// Quorum is an Upstream over independent masters: RedLock. A request goes to all of them at
// once, and of their replies is made the one that a single Redis would have given:
//
//	LOCK ----> acquire.lua on all --> a majority granted --> the same fence? --> granted
//	                              |                      \-> settle.lua on all --> granted
//	                              \-> not: cancel.lua on all, until the lease is over
//	others --> script on all --> a row of rules
//
// A majority is one of all nodes, whether they can be reached or not. What a node says that does
// not vote is not counted, neither for nor against, but it is told everything, so that it
// has what the others have when it votes again.
//
// What a majority cannot keep: proxies that wait for a lock get it in no order (the clients of one proxy do,
// first come, first served), and two readers of different proxies that both want to write are not told of the
// deadlock, but wait in vain. A WAIT ends with NOQUORUM as soon as one attempt does. Safe for concurrent use.
// It belongs to one Locker, whose Close ends it.
type Quorum struct {
	nodes  []Node
	need   int // nodes of a majority
	o      QuorumOptions
	fences fences
	debts  []*debts // by node
	heirs  heirs    // or nil

	ctx    context.Context // of what outlives those who wait for it
	cancel context.CancelFunc
	busy   sync.WaitGroup // requests under way, and who pays debts
}

// heirs are those who get a lock from the one who releases it.
type heirs interface {
	// heir makes what is asked for right behind the release id of key, or nil.
	heir(key, id []byte) *attempt
	// wakeHeir is called when all nodes have been asked for both.
	wakeHeir(key, id []byte)
}

// NewQuorum makes an Upstream of nodes, an odd number of them.
func NewQuorum(nodes []Node, o QuorumOptions) *Quorum {
	o.NodeTimeout = cmp.Or(o.NodeTimeout, DefaultNodeTimeout)
	if o.NotRun == nil {
		o.NotRun = func(error) bool { return false }
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	q := &Quorum{nodes: nodes, need: len(nodes)/2 + 1, o: o}
	q.fences.start(len(nodes))
	for range nodes {
		q.debts = append(q.debts, &debts{})
	}
	q.ctx, q.cancel = context.WithCancel(context.Background())
	return q
}

// MinLease is the shortest lease of a lock: twenty times what a node may take to answer.
func (q *Quorum) MinLease() time.Duration { return 20 * q.o.NodeTimeout }

// ErrQuorumSync is what is said to those who want replicas to have a grant.
var ErrQuorumSync = ReplyError("ERR SYNC is not for RedLock: a lock is on a majority of independent masters already, leave SYNC out")

// Do implements Upstream. resend means nothing: a request is sent once to each node.
func (q *Quorum) Do(ctx context.Context, _ int, req []byte, _ bool) ([]byte, error) {
	w, reply, err := q.begin(req, nil)
	if w == nil {
		return reply, err
	}
	return w.await(ctx)
}

// work is a request that nodes have been asked for.
type work interface {
	// await returns the reply once it is clear, or else why ctx ended; then the request is given up.
	await(ctx context.Context) ([]byte, error)
}

// begin asks all nodes. then, if not nil, is told the reply once it is clear; it must not block. No work:
// reply and err are what there is to say, and then is not told.
func (q *Quorum) begin(req []byte, then func(reply []byte)) (w work, reply []byte, err error) {
	var space [argMost + 1][]byte
	args, _, err := resp.Split(req, space[:0])
	if err != nil || len(args) < 4 {
		return nil, nil, fmt.Errorf("redlock: not a request for a quorum: %w", errors.Join(err, errReply))
	}
	if string(args[1]) == acquireScript.SHA {
		a, reply, err := q.newAttempt(args, req)
		if a == nil {
			return nil, reply, err
		}
		a.then = then
		for i := range q.nodes {
			a.ask(i)
		}
		return a, nil, nil
	}
	for _, r := range rules {
		if string(args[1]) == r.script.SHA {
			return q.poll(args, req, r, then), nil, nil
		}
	}
	return nil, nil, fmt.Errorf("redlock: no rule makes one reply to %s of many", args[1])
}

// Synced implements Upstream.
func (q *Quorum) Synced(context.Context, int, []byte, int, time.Duration) ([]byte, int, error) {
	return nil, 0, ErrQuorumSync
}

// Sharded implements Upstream: independent masters have no slots.
func (q *Quorum) Sharded() bool { return false }

// Masters implements Upstream.
func (q *Quorum) Masters() int { return len(q.nodes) }

// Master implements Upstream: all have every slot.
func (q *Quorum) Master(int) string { return "" }

// DoMaster implements Upstream, for SCAN. A node that cannot be had has no keys, if a majority can:
// whatever is held is on one of those.
func (q *Quorum) DoMaster(ctx context.Context, i int, req []byte, _ bool) ([]byte, error) {
	reply, err := q.do(ctx, i, req, max(q.o.NodeTimeout, time.Second))
	if err == nil || ctx.Err() != nil {
		return reply, err
	}
	up := 0
	for j, n := range q.nodes {
		if j != i && n.Vote() == nil {
			up++
		}
	}
	if up < q.need {
		return nil, ReplyError(q.noQuorum(up, err.Error()))
	}
	return []byte("*2\r\n$1\r\n0\r\n*0\r\n"), nil
}

// ask has node i run req within NodeTimeout. It counts as work of q until to has been told.
func (q *Quorum) ask(i int, req []byte, tag int, to Answerer) {
	q.busy.Add(1)
	q.nodes[i].Ask(req, q.o.NodeTimeout, tag, to)
}

// heal asks node i once more if it had lost the script of req. to is told of that instead.
func (q *Quorum) heal(i int, req, reply []byte, err error, to Answerer) bool {
	again, lost := lostScript(req, reply, err)
	if lost {
		q.ask(i, again, i, to)
	}
	return lost
}

// lostScript says that a node had lost the script of req, which has therefore not run, and returns the
// request that brings the script along; Redis remembers it from then on.
func lostScript(req, reply []byte, err error) (again []byte, lost bool) {
	if err != nil || !bytes.HasPrefix(reply, []byte("-NOSCRIPT")) {
		return nil, false
	}
	args, _, err := resp.Split(req, nil)
	if err != nil || len(args) < 2 || string(args[0]) != "EVALSHA" {
		return nil, false
	}
	for _, s := range Scripts() {
		if string(args[1]) == s.SHA {
			args[0], args[1] = []byte("EVAL"), []byte(s.Source)
			return resp.AppendCommand(nil, args...), true
		}
	}
	return nil, false
}

// do asks node i alone and waits for its reply, until ctx ends.
func (q *Quorum) do(ctx context.Context, i int, req []byte, timeout time.Duration) ([]byte, error) {
	for {
		a := make(answered, 1)
		q.nodes[i].Ask(req, timeout, 0, a)
		select {
		case said := <-a:
			again, lost := lostScript(req, said.reply, said.err)
			if !lost {
				return said.reply, said.err
			}
			req = again
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

// word is a node's answer as rules see it: what it is if it counts.
func (q *Quorum) word(i int, reply []byte, err error) (v resp.Value, fault error) {
	if err != nil {
		return v, fmt.Errorf("%s: %w", q.nodes[i].Addr(), err)
	}
	if v, _, err = resp.Parse(reply); err != nil {
		return v, fmt.Errorf("%s: %w: %w", q.nodes[i].Addr(), errReply, err)
	}
	if v.Err() != "" && !strings.HasPrefix(v.Err(), "LOCKTYPE ") {
		return v, fmt.Errorf("%s: %w", q.nodes[i].Addr(), ReplyError(v.Err()))
	}
	return v, nil
}

// clocked takes the last of elems, which is what the clock of node i showed when it answered what it was
// asked at a time, and says whether the node votes.
func (q *Quorum) clocked(i int, elems []resp.Value, asked time.Time) (rest []resp.Value, vote error) {
	last := len(elems) - 1
	return elems[:last], q.nodes[i].Heard(time.UnixMicro(elems[last].Int), asked)
}

// noQuorum is the error that too few nodes could be had.
func (q *Quorum) noQuorum(got int, why string) string {
	if why == "" {
		why = "they do not agree, and the others cannot be asked"
	}
	return fmt.Sprintf("NOQUORUM %d/%d of the nodes that it takes could be had (%s): try again later, and look after the nodes of --redlock", got, q.need, oneLine(why))
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

// close waits until what is to be taken back is, or ctx ends.
func (q *Quorum) close(ctx context.Context) {
	stop := context.AfterFunc(ctx, q.cancel)
	defer stop()
	q.busy.Wait()
	q.cancel()
}
