// Package scatter sends one command of a client to several nodes and makes one answer of their replies.
//
//	Gather.Send    the same request to every master  --+
//	Send           each part of a command to its node --+--> nodes
//	                                                          |
//	Host.Answer <-- commands.Merge <-- all are there <-- Gather.Receive
//
// A Gather collects the replies and merges them when the last one is there. Send sends parts as fast as nodes
// take them. Cutting a long command and merging long replies is much work, which a goroutine does while the
// loop goes on.
//
// Begin with Gather.Receive, then spread.sendSome.
package scatter

import (
	"errors"
	"strings"

	"lockproxy/cluster"
	"lockproxy/cluster/pipe"
	"lockproxy/cluster/pipe/owned"
	"lockproxy/cluster/retry"
	"lockproxy/commands"
	"lockproxy/internal/resp"
	"lockproxy/proxy/client"
)

// Host is a session as this package sees it, beside what all features see.
type Host interface {
	client.Host
	// Sent notes that p took a request of the client; nil: the request waits for a node. resend: it changes
	// nothing.
	Sent(p *pipe.Pipe, resend bool)
	// Detour makes later commands wait, since a request of command tag is sent again.
	Detour(tag uint32)
	// Order is the place of command tag, as in pipe.Ordered.
	Order(tag uint32) (client int64, n uint32, latest bool)
	// Collect adds n bytes, which may be negative, to what has arrived for the answer to command tag.
	Collect(tag uint32, n int)
	// Lend counts n bytes that a goroutine has, until command tag, which waits for it, goes on.
	Lend(tag uint32, n int)
	// Resume goes on with command tag: answer returns its answer, or nil if it has asked for more.
	Resume(tag uint32, answer func() []byte)
	// KeepFor adds n bytes, which may be negative, to what command tag keeps in memory.
	KeepFor(tag uint32, n int)
	CountMemory()
	// Background runs task on a goroutine, and then runs then on the loop.
	Background(task, then func())
	// InTurn runs f now, or in a later round of the loop if this one has taken long.
	InTurn(f func())
}

// Gather collects the replies of several nodes to the parts of one command. It is their pipe.Receiver; the
// number of a part is its tag.
type Gather struct {
	h       Host
	tag     uint32
	replies []client.Collected
	missing int
	merge   commands.Merge
	always  bool                        // merge even if the client has gone
	most    int                         // bytes of a reply
	pure    bool                        // merge needs only the replies, and may run on any goroutine
	writes  bool                        // a part may have another effect when it runs twice
	failed  map[uint32]*cluster.Untaken // the parts that no node has answered; nil: one may have run
	untaken int                         // how many of them no node took
	begun   bool                        // something of the command has run before these parts
}

// NewGather prepares for n replies to the current command of h. always: they are merged even if the client
// has gone.
func NewGather(h Host, n int, merge commands.Merge, always bool) *Gather {
	g := &Gather{
		h: h, tag: h.CurrentTag(), replies: make([]client.Collected, n), missing: n, merge: merge,
		always: always, most: pipe.MostData,
	}
	h.AnswerLater(client.ByNode)
	if n == 0 {
		h.Answer(g.tag, commands.ErrorReply(client.ErrNoMasters))
	}
	return g
}

// NewPureGather is NewGather for the merge of cmd, which needs only the replies, and may run on any
// goroutine.
func NewPureGather(h Host, n int, cmd *commands.Command) *Gather {
	g := NewGather(h, n, cmd.Merge, false)
	g.pure, g.most = true, mostOf(cmd)
	return g
}

// mostOf is how many bytes the reply of a node to cmd, or to a part of it, may have.
func mostOf(cmd *commands.Command) int {
	if cmd.Merge == nil || cmd.Flags&commands.Lists != 0 {
		return pipe.MostData
	}
	return resp.Answer.Bytes
}

// Receive implements pipe.Receiver.
func (g *Gather) Receive(i uint32, chunk []byte, last bool) {
	if g.wanted() {
		g.replies[i].Add(chunk)
		g.h.Collect(g.tag, len(chunk))
	}
	if last {
		g.countReply()
	}
}

// wanted says that anybody will look at the replies.
func (g *Gather) wanted() bool { return !g.h.Gone() || g.always }

// Fail implements pipe.Receiver.
func (g *Gather) Fail(i uint32, err error) {
	var untaken *cluster.Untaken
	if g.wanted() {
		g.replaceReply(i, commands.ErrorReply(err))
		if g.failed == nil {
			g.failed = make(map[uint32]*cluster.Untaken)
		}
		if errors.As(err, &untaken) {
			g.untaken++
		}
		g.failed[i] = untaken
	}
	g.countReply()
}

// replaceReply makes reply that of part i. What the client is charged with for the answer follows.
func (g *Gather) replaceReply(i uint32, reply []byte) {
	g.h.Collect(g.tag, len(reply)-g.replies[i].Size())
	g.replies[i] = client.Collected{Buf: reply}
}

// Begun notes that something of the command has run already.
func (g *Gather) Begun() { g.begun = true }

// tellParts makes the errors of parts that were not run say that others may have run, if any may. Each of
// them alone knows of itself only.
func (g *Gather) tellParts() {
	if g.untaken == len(g.replies) && !g.begun {
		return
	}
	for i, untaken := range g.failed {
		if untaken != nil {
			g.replaceReply(i, commands.ErrorReply(untaken.OfPart(!g.writes)))
		}
	}
	if g.writes {
		g.tellRefused()
	}
}

// tellRefused is tellParts for the errors of nodes. What reads has no use for it.
func (g *Gather) tellRefused() {
	ran := g.begun
	var refused []uint32
	for i := range uint32(len(g.replies)) {
		untaken, failed := g.failed[i]
		switch reply := g.replies[i].Buf; {
		case failed:
			ran = ran || untaken == nil
		case len(reply) > 0 && reply[0] == '-':
			refused = append(refused, i)
		default:
			ran = true
		}
	}
	if !ran {
		return
	}
	for _, i := range refused {
		text := strings.TrimSpace(string(g.replies[i].Buf[1:]))
		if retry.MayPass(text) { // clients send a command again by that word
			untaken := &cluster.Untaken{Why: errors.New(text)}
			g.replaceReply(i, commands.ErrorReply(untaken.OfPart(false)))
			continue
		}
		g.replaceReply(i, resp.ErrorLine("%s (%s)", text, otherParts))
	}
}

// otherParts is added to an error of a node that not all of the command has got.
const otherParts = "this is the answer to a part of the command: its other parts may have run"

// Discard implements pipe.Receiver.
func (g *Gather) Discard(i uint32) bool {
	g.h.Collect(g.tag, -g.replies[i].Size())
	g.replies[i] = client.Collected{}
	return true
}

// Most implements pipe.Longer.
func (g *Gather) Most(uint32) int { return g.most }

// Detour implements pipe.Receiver.
func (g *Gather) Detour(uint32) { g.h.Detour(g.tag) }

// Order implements pipe.Ordered: the parts have no order among each other.
func (g *Gather) Order(uint32) (client int64, n uint32, latest bool) { return g.h.Order(g.tag) }

// countReply counts a reply. The last one has all merged.
func (g *Gather) countReply() {
	if g.missing--; g.missing > 0 {
		return
	}
	g.tellParts()
	size := 0
	for i := range g.replies {
		size += g.replies[i].Size()
	}
	if size > client.LongFrom && g.wanted() {
		g.mergeApart(size)
		return
	}
	g.h.InTurn(func() { g.mergeHere(size, g.wholes()) })
}

// mergeApart makes a goroutine join the replies, of size bytes, and also make the answer if the merge needs
// only the replies.
func (g *Gather) mergeApart(size int) {
	var replies [][]byte
	if !g.pure {
		g.h.Background(func() { replies = g.wholes() }, func() { g.mergeHere(size, replies) })
		return
	}
	var answer []byte
	proto := g.h.About().Proto
	g.h.Background(func() { answer = g.merge(proto, g.wholes()) }, func() {
		g.h.Collect(g.tag, -size)
		g.h.CountMemory()
		g.h.Answer(g.tag, answer)
	})
}

// wholes returns the replies, each in one piece.
func (g *Gather) wholes() [][]byte {
	replies := make([][]byte, len(g.replies))
	for i := range g.replies {
		replies[i] = g.replies[i].Whole()
	}
	return replies
}

// mergeHere makes the answer of the replies, which have size bytes.
func (g *Gather) mergeHere(size int, replies [][]byte) {
	h := g.h
	if !g.wanted() {
		h.Answer(g.tag, nil)
		return
	}
	h.Collect(g.tag, -size)
	h.CountMemory()
	h.Resume(g.tag, func() []byte { return g.merge(h.About().Proto, replies) })
	if size > client.LongFrom {
		h.Lend(g.tag, size) // to a goroutine, if the command waits for one
	}
}

// Send sends req to all masters, one for each reply.
func (g *Gather) Send(req []byte, resend bool) {
	for i := range g.replies {
		g.Ask(pipe.Request{
			Target: pipe.ToShard(i), Mode: g.h.Mode(), Bytes: req, Tag: uint32(i), Resend: resend,
		})
	}
}

// Ask sends a request. Its reply is that of the part with the number r.Tag.
func (g *Gather) Ask(r pipe.Request) {
	r.To = g
	g.writes = g.writes || !r.Resend
	g.h.Sent(g.h.Pool().Send(&r), r.Resend)
}

// SendOwn is Send, over connections of that mode which nobody else uses meanwhile. What holds up the shared
// connections, a script that does not end, does not hold up these. An apart gives its connection back with
// the reply.
func (g *Gather) SendOwn(req []byte, mode pipe.Mode) {
	pool := g.h.Pool()
	for i, n := range pool.Topology().Masters {
		a := &apart{Gather: g}
		a.pipe = pool.Own(n.Addr, mode, a)
		a.pipe.Request(req, a, uint32(i))
	}
}

// apart is one request over a connection of its own.
type apart struct {
	*Gather
	pipe *pipe.Pipe
}

// Receive implements pipe.Receiver.
func (a *apart) Receive(i uint32, chunk []byte, last bool) {
	if last {
		a.pipe.Release()
	}
	a.Gather.Receive(i, chunk, last)
}

// Push implements owned.Owner: nothing was asked for that would send any.
func (a *apart) Push([]byte, bool) {}

// Lost implements owned.Owner: the request has failed before.
func (a *apart) Lost(error) {}

// Party implements owned.Counted.
func (a *apart) Party() owned.Party { return client.PartyOf(a.h.About()) }
