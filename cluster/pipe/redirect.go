package pipe

import (
	"bytes"
	"errors"
	"net"
	"strconv"
	"strings"
	"time"

	"lockproxy/cluster"
	"lockproxy/cluster/retry"
	"lockproxy/internal/slot"
)

// waitingLimit bounds the bytes of the requests that wait for their nodes, in
// queues of Options.QueueLimit.
const waitingLimit = 16

// redirect handles an error reply that does not concern the client: the request goes elsewhere, or again,
// and the client never learns of it. It reports false for every other error. req aliases the backlog of
// pipe.
func (p *Pool) redirect(pipe *Pipe, c call, req, reply []byte) bool {
	r, rest := retry.ErrorOf(reply)
	if r == nil {
		return false
	}
	script, raised := fromScript(&c, req, r, rest)
	if raised {
		return false
	}
	if r.Verdict == retry.LoadScript {
		p.scripts.lost(pipe.addr, req)
	} else if pipe.mode.Replica {
		p.declined(pipe, c, req, r)
		return true
	}
	if !c.believed && !c.alone && !(r.Counts == retry.TryAgain && c.splits) &&
		(*order)(pipe).putAside(&c, req, reply) {
		return true
	}
	if script && !c.believed && r.Verdict != retry.LoadScript && !(c.resend && mayRepeat(req)) {
		p.doubt(pipe, c, r, req, reply)
		return true
	}
	if r.Counts == retry.Ask || r.Counts == retry.TryAgain {
		p.stats.moving.note(c.slot, p.loop.Now())
	}
	if r.Counts == retry.TryAgain && c.splits {
		p.stats.Redirects[r.Counts].Add(1)
		p.control.Refresh()
		c.to.Detour(c.tag)
		return false
	}
	first := c.believed // it has waited at the front of its slot
	c.believed, c.alone = false, false
	switch r.Verdict {
	case retry.Redirect:
		_, addr, ok := parseRedirect(rest, pipe.addr)
		if !ok || c.slot == thisNode || p.topology.Kind != cluster.Cluster {
			return false
		}
		p.control.Refresh()
		c.to.Detour(c.tag)
		if addr == pipe.addr {
			p.leaving.redial(pipe, reply)
		}
		if addr = p.member(addr, p.control); addr == "" {
			p.later(pipe.addr, pipe.mode, c, req, bytes.Clone(reply), nil)
			return true
		}
		c.healed = false // that node may have lost the script too
		if p.waiting.delays(c.slot) && !first {
			p.later(pipe.addr, pipe.mode, c, req, bytes.Clone(reply), nil)
			return true
		}
		if !c.try.Hop() {
			p.stats.Redirects[retry.Loop].Add(1)
			p.later(pipe.addr, pipe.mode, c, req, bytes.Clone(reply), nil)
			return true
		}
		req = lasting(req)
		p.stats.Redirects[r.Counts].Add(1)
		switch {
		case r.Counts == retry.Ask:
			c.before, c.astray = sayAsking, true
		case pipe.private != nil:
			pipe.private.fade() // before the topology shows it
		}
		target := p.pipe(addr, pipe.mode.again())
		if !target.retired.IsZero() {
			target.retired = p.loop.Now() // it is in use before the topology shows it
		}
		c.again = true
		p.sendTo(target, &c, req)
		return true
	case retry.Later:
		p.stats.Redirects[r.Counts].Add(1)
		p.control.Refresh()
		c.to.Detour(c.tag)
		p.leaving.redial(pipe, reply)
		p.later(pipe.addr, pipe.mode, c, req, bytes.Clone(reply), nil)
		return true
	case retry.LoadScript:
		return p.heal(pipe, c, req, reply)
	}
	return false
}

var asking = []byte("*1\r\n$6\r\nASKING\r\n")

// parseRedirect reads "3999 127.0.0.1:6381". An empty host means the host that answered (Redis Cluster
// specification, MOVED redirection), and "?" one without a name at a node that prefers names.
func parseRedirect(b []byte, from string) (n int, addr string, ok bool) {
	number, rest, _ := bytes.Cut(bytes.TrimRight(b, "\r\n"), []byte(" "))
	n, err := strconv.Atoi(string(number))
	if err != nil || n < 0 || n >= slot.Count {
		return 0, "", false
	}
	// An IPv6 address comes without brackets: the port is behind the last colon.
	colon := bytes.LastIndexByte(rest, ':')
	if colon < 0 {
		return 0, "", false
	}
	host, port := string(rest[:colon]), string(rest[colon+1:])
	if p, err := strconv.ParseUint(port, 10, 16); err != nil || p == 0 {
		return 0, "", false
	}
	if strings.ContainsAny(host, "[]") {
		return 0, "", false
	}
	if host == "" {
		if host, _, err = net.SplitHostPort(from); err != nil {
			return 0, "", false
		}
	}
	return n, net.JoinHostPort(host, port), true
}

// later has the request sent again after a pause that grows, until its budget is used up. addr is the node
// that had it, "" if none had. req is kept. It returns nil if there is no room for one more.
func (p *Pool) later(addr string, m Mode, c call, req, reply []byte, err error) *deferred {
	c.healed, c.again = false, true
	if !c.try.Paused() {
		p.outages.Feel(addr, cluster.Felt{Delayed: 1})
	}
	next := p.loop.Now().Add(c.try.Pause())
	d := &deferred{call: c, mode: m.again(), addr: addr, next: next, reply: reply, err: err}
	if p.closed || p.waiting.bytes+len(req) > waitingLimit*p.o.QueueLimit {
		p.giveUp(d)
		return nil
	}
	d.req = lasting(req)
	p.waiting.add(d)
	p.arm()
	return d
}

// arm has the deferred requests tried soon.
func (p *Pool) arm() {
	if !p.armed && len(p.waiting.all) > 0 {
		p.armed = true
		p.loop.After(10*time.Millisecond, func() {
			p.armed = false
			p.retry()
		})
	}
}

// retry sends the deferred requests whose time has come, in the order in which they came.
func (p *Pool) retry() {
	waiting := p.waiting.takeAll()
	now := p.loop.Now()
	known := make(map[nodeSlot]shard)
	for _, d := range waiting {
		switch {
		case d.inDoubt:
			p.waiting.add(d)
		case p.outages.expired(d, now.Sub(p.born), known):
			p.giveUp(d)
		case now.Before(d.next), p.waiting.delays(d.slot), p.outages.holds(d, p.byNode):
			p.waiting.add(d)
		case d.left(p):
			p.giveUp(d)
		case d.slot == thisNode:
			p.sendTo(p.pipe(d.addr, d.mode), &d.call, d.req)
		default:
			p.send(&d.call, d.mode, d.req)
		}
	}
	p.arm()
}

// left says that the node that the request is for has left the topology.
func (d *deferred) left(p *Pool) bool {
	pipe := p.byNode[nodeKey{d.addr, p.stuck.mode(d.addr, d.mode)}]
	return d.slot == thisNode && pipe != nil && !pipe.retired.IsZero()
}

// giveUp answers a request whose budget is used up: with the node's own words, or with why no node could be
// reached.
func (p *Pool) giveUp(d *deferred) {
	p.stats.GivenUp.Add(1)
	p.outages.Feel(d.addr, cluster.Felt{Failed: 1})
	if d.reply != nil && !d.ran && !isRedirect(d.reply) {
		d.to.Receive(d.tag, d.reply, true)
		return
	}
	d.to.Fail(d.tag, notTaken(d.outcome(), d.reply, d.err))
}

// notTaken is the error of a request whose budget is used up: err, or what reply complains of, is why.
func notTaken(outcome error, reply []byte, err error) error {
	if err == nil {
		err = complaint(reply)
	}
	return cluster.NotTaken(outcome, err, err == errRedirected || errors.Is(err, ErrNoPlace))
}

// errRedirected is the error if the budget is used up by redirects.
var errRedirected = errors.New("it was redirected again and again")

// isRedirect says that an error reply names another node.
func isRedirect(reply []byte) bool {
	return bytes.HasPrefix(reply, []byte("-MOVED ")) || bytes.HasPrefix(reply, []byte("-ASK "))
}

// complaint turns an error reply into an error.
func complaint(reply []byte) error {
	if isRedirect(reply) {
		return errRedirected
	}
	return errors.New(string(bytes.TrimSpace(reply)))
}
