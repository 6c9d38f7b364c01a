package pipe

import (
	"bytes"
	"time"

	"lockproxy/cluster"
	"lockproxy/cluster/pipe/script"
	"lockproxy/cluster/retry"
	"lockproxy/internal/resp"
)

// This file is about requests that their nodes have refused.

// redirect handles an error reply that does not concern the client: the request goes elsewhere, or again,
// and the client never learns of it. It reports false for every other error. req aliases the backlog of
// pipe.
func (r *retrier) redirect(pipe *Pipe, c call, req, reply []byte) bool {
	e, rest := retry.ErrorOf(reply)
	if e == nil {
		return false
	}
	// What a script has said itself is for the client. Sent again, it would run twice.
	byScript, raised := script.From(int(c.slot), req, e, rest)
	if raised {
		return false
	}
	if e.Verdict == retry.LoadScript {
		r.scripts.Lost(pipe.addr, req)
	} else if pipe.mode.Replica {
		r.declined(pipe, c, req, e)
		return true
	}
	// It need not wait for what its client has sent behind it: that has been looked after, or the client
	// handles TRYAGAIN itself.
	final := c.believed || c.alone || e.Counts == retry.TryAgain && c.splits
	if !final && r.putAside(pipe, &c, req, reply) {
		return true
	}
	if byScript && !c.believed && e.Verdict != retry.LoadScript && !c.isOurScript(req) {
		r.doubtScript(pipe, c, e, req, reply)
		return true
	}
	if e.Counts == retry.Ask || e.Counts == retry.TryAgain {
		r.stats.moving.noteMoving(c.slot, r.loop.Now())
	}
	if e.Counts == retry.TryAgain && c.splits {
		r.stats.Redirects[e.Counts].Add(1)
		r.Refresh()
		c.to.Detour(c.tag)
		return false
	}
	first := c.believed // it has waited at the front of its slot
	c.believed, c.alone = false, false
	switch e.Verdict {
	case retry.Redirect:
		return r.followRedirect(pipe, c, req, reply, first)
	case retry.Later:
		r.stats.Redirects[e.Counts].Add(1)
		r.Refresh()
		r.home.redialPipe(pipe, reply) // the next try may reach another node by the same name
		r.deferRequest(pipe.addr, pipe.mode, c, req, bytes.Clone(reply), nil)
		return true
	}
	return r.healScript(pipe, c, req, reply)
}

// followRedirect sends a request to the node that reply names, unless it has to wait first. first says that
// it has.
func (r *retrier) followRedirect(pipe *Pipe, c call, req, reply []byte, first bool) bool {
	e, rest := retry.ErrorOf(reply)
	_, addr, ok := retry.ParseRedirect(rest, pipe.addr)
	if !ok || c.slot == thisNode || r.topology.Kind != cluster.Cluster {
		return false
	}
	r.Refresh()
	c.to.Detour(c.tag)
	if addr == pipe.addr { // its name leads to the node that has taken over
		r.home.redialPipe(pipe, reply)
	}
	addr = r.member(addr)
	c.healed = false // that node may have lost the script too
	// A request of the slot that waits already was here first.
	hops := addr != "" && (first || !r.waiting.delays(c.slot))
	if hops && !c.try.Hop() {
		r.stats.Redirects[retry.Loop].Add(1)
		hops = false
	}
	if !hops {
		r.deferRequest(pipe.addr, pipe.mode, c, req, bytes.Clone(reply), nil)
		return true
	}
	req = lasting(req)
	r.stats.Redirects[e.Counts].Add(1)
	switch {
	case e.Counts == retry.Ask:
		c.before, c.astray = sayAsking, true
	default:
		pipe.Fade() // before the topology shows it
	}
	target := r.home.pipe(addr, pipe.mode.again())
	if !target.retired.IsZero() {
		target.retired = r.loop.Now() // it is in use before the topology shows it
	}
	c.again = true
	r.home.sendTo(target, &c, req)
	return true
}

// shunFor is how long a replica is not used after it has refused a read. By then its state is known.
const shunFor = time.Second

// declined sends a read that a replica has refused to the master.
func (r *retrier) declined(pipe *Pipe, c call, req []byte, e *retry.Error) {
	if e.Verdict == retry.Redirect {
		r.Refresh()
	}
	r.stats.Redirects[e.Counts].Add(1)
	pipe.shunned = r.loop.Now().Add(shunFor)
	c.to.Detour(c.tag)
	c.healed = false
	r.home.sendToSlot(&c, pipe.mode.again(), lasting(req))
}

// healScript has the node of pipe run req once more, behind the script that it lacks. The script is loaded
// once for all requests that need it, and in a later round if enough was loaded in this one. The node may
// lose it again before the request arrives (SCRIPT FLUSH, or it was still loading when it got the script); a
// request that may run twice then tries again, a few times. Where SCRIPT LOAD is forbidden, the request
// becomes an EVAL.
func (r *retrier) healScript(pipe *Pipe, c call, req, reply []byte) bool {
	s := &r.scripts
	if c.healed && !s.Forbidden && !(c.resend && c.try.Hop()) {
		return false
	}
	sha, ok := s.SHA(req)
	if !ok {
		return false
	}
	req = lasting(req) // it may lie in the backlog of pipe, which changes
	loading := pipe.loading[sha]
	if r.waiting.delays(c.slot) || !loading && s.RoundIsFull(r.loop.Now()) {
		r.nextRound(pipe, c, req, bytes.Clone(reply), nil)
		return true
	}
	if !loading {
		source, ok := s.Source(sha)
		if !ok {
			return false
		}
		if s.Forbidden {
			req = script.WithSource(req, source)
		} else {
			loadScript(s, pipe, sha, source)
		}
	}
	r.stats.Redirects[retry.NoScript].Add(1)
	c.healed, c.again = true, true
	c.to.Detour(c.tag)
	r.home.sendTo(pipe, &c, req)
	return true
}

// loadScript queues a script for the node of p, and notes when it has it, or that it forbids SCRIPT LOAD. The
// pipe runs it before whatever is queued later.
func loadScript(s *script.Inventory, p *Pipe, sha string, source []byte) {
	if p.loading == nil {
		p.loading = make(map[string]bool)
	}
	p.loading[sha] = true
	req := resp.AppendCommand(nil, []byte("SCRIPT"), []byte("LOAD"), source)
	p.askNode(req, func(reply []byte, err error) {
		delete(p.loading, sha)
		if err != nil {
			return
		}
		if s.Forbidden = s.Forbidden || resp.Forbidden(reply); !isErrorReply(reply) {
			s.Given(p.addr, sha)
		}
	})
}

// Scripts raise errors in words of Redis. A script that returns "CLUSTERDOWN Hash
// slot not served" has run, and would run again each time it is sent. So the node is asked to run another
// script with the same keys, which does nothing. If it refuses that one, it has refused the first one too. A
// replica would run it, so after READONLY the node is asked for its role instead. If the error was not of
// Redis, the first script is sent once more, since the slot may have stopped moving meanwhile; then its
// error goes to the client.

// doubt is a script whose error may or may not be of Redis. It keeps its place among the requests that wait.
type doubt struct {
	*deferred
	r    *retrier
	pipe *Pipe
	said []byte
	role bool // the node was asked for its role
}

// doubtScript asks the node of pipe, which answered c with reply. req aliases the log of pipe.
func (r *retrier) doubtScript(pipe *Pipe, c call, e *retry.Error, req, reply []byte) {
	c.alone, c.again = false, true
	c.to.Detour(c.tag)
	r.Refresh()
	d := &doubt{r: r, pipe: pipe, role: e.OfReplicas, deferred: &deferred{
		call: c, mode: pipe.mode.again(), addr: pipe.addr, req: lasting(req), reply: bytes.Clone(reply),
		inDoubt: true,
	}}
	r.waiting.addDeferred(d.deferred)
	switch {
	case d.role:
		pipe.appendRequest(d.question(), resp.AppendCommandStrings(nil, "ROLE"))
	case len(d.req) > doubtAtOnce:
		go func() { // ends by itself
			question := script.Idle(d.req)
			r.loop.Post(func() { r.home.sendTo(r.home.pipe(d.addr, d.mode), d.question(), question) })
		}()
	default:
		pipe.appendRequest(d.question(), script.Idle(d.req))
	}
}

// doubtAtOnce is how long a request may be that is parsed on the loop.
const doubtAtOnce = 256 << 10

// isOurScript says that req, a script, is one of ours, such as that of a lock: they return no words of Redis.
// So an error like those is of Redis, and the script has not run. Of the requests of clients, only scripts
// that only read may be sent twice, and what they return is for the client.
func (c *call) isOurScript(req []byte) bool {
	return harmless(c) || c.resend && !script.OnlyReads(req)
}

// question is the call that asks the node.
func (d *doubt) question() *call {
	c := &call{to: &Collector{Then: d.takeAnswer}, slot: thisNode, raw: true, ours: true, came: d.came}
	if d.astray {
		c.before = sayAsking
	}
	return c
}

// takeAnswer takes the answer. It runs once, on the loop.
func (d *doubt) takeAnswer(reply []byte, err error) {
	if err != nil {
		d.tellClient()
		return
	}
	d.said = reply
	switch {
	// It has not run, and nothing of its slot waits before it: it may go at once.
	case d.wasRefused() && d.r.waiting.isFirst(d.deferred):
		d.r.waiting.removeDeferred(d.deferred)
		d.believed = true
		if !d.r.redirect(d.pipe, d.call, d.req, d.reply) {
			d.tellClient()
		}
	// It has not run, and goes in its turn.
	case d.wasRefused():
		d.inDoubt, d.next = false, d.r.loop.Now()
		d.r.armRetry()
	// It has been sent once more already, and got such an error again: so it is the script that says so.
	case d.doubted:
		d.tellClient()
	default:
		d.doubted, d.ran = true, true
		d.inDoubt, d.next = false, d.r.loop.Now().Add(d.try.Pause())
		d.r.armRetry()
	}
}

// wasRefused says that the error was of Redis, as the answer to the question shows. A node that does not tell
// its role may be a replica.
func (d *doubt) wasRefused() bool {
	if d.role {
		return !bytes.HasPrefix(d.said, []byte("*3\r\n$6\r\nmaster\r\n"))
	}
	if d.said[0] != '-' {
		return false
	}
	r, _ := retry.ErrorOf(d.said)
	return r != nil && r.Verdict != retry.LoadScript
}

// tellClient gives the error to the client. It is the script's own, or nobody can find out: as at Redis, the
// client gets it.
func (d *doubt) tellClient() {
	d.r.waiting.removeDeferred(d.deferred)
	d.to.Receive(d.tag, retry.Plain(d.reply), true)
}
