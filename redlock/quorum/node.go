package quorum

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"time"

	"lockproxy/internal/resp"
	"lockproxy/internal/subscription"
	"lockproxy/redlock"
	"lockproxy/redlock/scripts"
)

// Node is one independent master. It runs its requests in the order of the calls of Ask, and no request is
// ever sent twice. Safe for concurrent use.
type Node interface {
	Addr() string
	// Ask sends req, one whole command, which must not change any more. to gets the RESP2 reply, under tag,
	// or after timeout the reason why there is none. After that, or when the connection breaks, req may still
	// run, but before any request of a later Ask. A node that is known to be away fails at once. Ask does not
	// block.
	Ask(req []byte, timeout time.Duration, tag int, to NodeAnswerer)
	// Vote returns nil if the node's answers count. Otherwise it says why they do not: the node cannot be
	// reached, has lost its memory, or its clock has stepped. It never blocks.
	Vote() error
	// Heard notes the time that the node's clock showed in an answer to a request of the time asked, by this
	// machine's clock. Then it is Vote: an answer that shows a stepped clock does not itself count. It never
	// blocks.
	Heard(clock, asked time.Time) error
	// Distrust keeps the node from voting for as long as after a restart: why. It never blocks.
	Distrust(why string)
	// Subscribe listens on channel until cancel is called. It never blocks. notify is called in order and
	// must not block.
	Subscribe(channel string, notify func(subscription.Change)) (cancel func())
}

// NodeAnswerer is told what becomes of a request to a Node.
type NodeAnswerer interface {
	// Answer is called once for each request, maybe before Ask returns. It must not block, but may call Ask.
	// reply is valid during the call.
	Answer(tag int, reply []byte, err error)
}

// votingNode is a Node as the engine asks it, with what it still has to run (pending.go).
type votingNode struct {
	Node
	q   *Engine
	tag int // of its answers: its number
	pendingQueue
}

// askNode sends req, to run within NodeTimeout. Close waits until to has been told.
func (n *votingNode) askNode(req []byte, to NodeAnswerer) {
	n.q.busy.Add(1)
	n.Ask(req, n.q.o.NodeTimeout, n.tag, to)
}

// heal sends c once more, with its source, if the node had lost the script. Then to is told the outcome of
// that instead.
func (n *votingNode) heal(c *scripts.Call, reply []byte, err error, to NodeAnswerer) bool {
	lost := lostScript(c, reply, err)
	if lost {
		n.askNode(c.WithSource(), to)
	}
	return lost
}

// lostScript says that a node had lost the script of c, so that it did not run. A Call without a script, such
// as a SCAN, loses none.
func lostScript(c *scripts.Call, reply []byte, err error) bool {
	return err == nil && c.Script != nil && bytes.HasPrefix(reply, []byte("-NOSCRIPT"))
}

// askAndWait sends c to this node alone and waits for the reply, or until ctx ends. Close does not wait for
// it as such: it is for those who wait themselves, or are part of busy. No vote is looked at.
func (n *votingNode) askAndWait(ctx context.Context, c *scripts.Call, timeout time.Duration) ([]byte, error) {
	for req := c.Req; ; req = c.WithSource() {
		a := make(awaited, 1)
		n.Ask(req, timeout, 0, a)
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

// nodeAnswer is the answer of one node.
type nodeAnswer struct {
	reply []byte
	err   error
}

// awaited is where somebody waits for an answer.
type awaited chan nodeAnswer

// Answer implements NodeAnswerer. The channel has room for it, so it does not block even if nobody waits any
// more.
func (a awaited) Answer(_ int, reply []byte, err error) { a <- nodeAnswer{bytes.Clone(reply), err} }

// word parses an answer for those who count answers. fault is why it does not count. LOCKTYPE is no fault but
// an answer: the key holds something else. v points into reply, so it lasts as long.
func (n *votingNode) word(reply []byte, err error) (v resp.Value, fault error) {
	if err != nil {
		return v, fmt.Errorf("%s: %w", n.Addr(), err)
	}
	if v, _, err = resp.Parse(reply); err != nil {
		return v, fmt.Errorf("%s: %w: %w", n.Addr(), scripts.ErrReply, err)
	}
	if v.Err() != "" && !strings.HasPrefix(v.Err(), "LOCKTYPE ") {
		return v, fmt.Errorf("%s: %w", n.Addr(), redlock.Said(v.Err()))
	}
	return v, nil
}

// clocked takes off the last of elems, the time of the node's clock when it answered a request of the time
// asked. It says whether the node votes. The clock is in µs since 1970. elems must not be empty.
func (n *votingNode) clocked(elems []resp.Value, asked time.Time) (rest []resp.Value, vote error) {
	last := len(elems) - 1
	return elems[:last], n.heardClock(elems[last].Int, asked)
}

// heardClock notes the time of the node's clock, in µs. It says whether the node votes.
func (n *votingNode) heardClock(clock int64, asked time.Time) (vote error) {
	n.q.fences.noteClock(n.tag, clock)
	return n.Heard(time.UnixMicro(clock), asked)
}
