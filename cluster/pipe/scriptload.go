package pipe

import (
	"bytes"
	"crypto/sha1"
	"time"

	"lockproxy/cluster/retry"
	"lockproxy/internal/resp"
)

// maxLoaded is how many bytes of scripts, and at most one script more, a loop gives to nodes in one round.
// All other clients of the loop wait while they are found and copied.
const maxLoaded = 1 << 20

// scriptLoads are the scripts that a loop gives back to nodes which have lost them.
type scriptLoads struct {
	// source is the script whose SHA1 is sha (40 hex digits). nil: NOSCRIPT is passed on.
	source func(sha []byte) (source []byte, ok bool)
	round  time.Time // the round of the loop that loaded counts in
	loaded int       // bytes
	whole  bool      // a node forbids SCRIPT LOAD: who lacks a script is sent it with the request
}

// named is the SHA1 of the script that req runs, in lower case.
func (s *scriptLoads) named(req []byte) (sha []byte, ok bool) {
	if s.source == nil {
		return nil, false
	}
	args := firstArgs(req, 2)
	if len(args) < 2 || len(args[1]) > 2*sha1.Size { // no script has such a name
		return nil, false
	}
	return bytes.ToLower(args[1]), true
}

// full says that no more may be loaded in the round that began at now.
func (s *scriptLoads) full(now time.Time) bool {
	if s.round != now {
		s.round, s.loaded = now, 0
	}
	return s.loaded >= maxLoaded
}

// heal has the node of pipe run req once more, behind the script that it lacks. The script is loaded once for
// all requests that want it, and in a later round if this one has loaded enough. It may be lost once more
// before the request is there (SCRIPT FLUSH, or a node that was still loading when it was given the script):
// what may run twice tries again, a few times. Where SCRIPT LOAD is forbidden the request becomes an EVAL.
func (p *Pool) heal(pipe *Pipe, c call, req, reply []byte) bool {
	if c.healed && !p.scripts.whole && !(c.resend && c.try.Hop()) {
		return false
	}
	sha, ok := p.scripts.named(req)
	if !ok {
		return false
	}
	req = lasting(req) // before the log of pipe, where it may lie, changes
	if !pipe.loading[string(sha)] {
		if p.scripts.full(p.loop.Now()) {
			c.to.Detour(c.tag)
			p.nextRound(pipe, c, req, reply)
			return true
		}
		source, ok := p.scripts.source(sha)
		if !ok {
			return false
		}
		p.scripts.loaded += len(source)
		if p.scripts.whole {
			req = withSource(req, source)
		} else {
			pipe.load(string(sha), source)
		}
	}
	p.stats.Redirects[retry.NoScript].Add(1)
	c.healed = true
	c.to.Detour(c.tag)
	pipe.append(c, req)
	return true
}

// nextRound has the request sent again soon, and does not count that as a try.
func (p *Pool) nextRound(pipe *Pipe, c call, req, reply []byte) {
	if d := p.later(pipe.addr, pipe.mode, c, req, bytes.Clone(reply), nil); d != nil {
		d.try, d.next = c.try, p.loop.Now()
	}
}

// sourceFor is the script that req runs, which its node has lost. It counts that.
func (p *Pool) sourceFor(req []byte) (source []byte, ok bool) {
	sha, ok := p.scripts.named(req)
	if !ok {
		return nil, false
	}
	if source, ok = p.scripts.source(sha); ok {
		p.stats.Redirects[retry.NoScript].Add(1)
	}
	return source, ok
}

// scriptLoad is the command that has a node take a script over.
func scriptLoad(source []byte) []byte {
	return resp.AppendCommand(nil, []byte("SCRIPT"), []byte("LOAD"), source)
}

// withSource is the EVAL, or EVAL_RO, that does what req does, which runs a script by its SHA1.
func withSource(req, source []byte) []byte {
	args, _, err := resp.Split(req, nil)
	if err != nil || len(args) < 2 {
		return req
	}
	word := "EVAL"
	if len(args[0]) > len("EVALSHA") {
		word = "EVAL_RO"
	}
	args[0], args[1] = []byte(word), source
	return resp.AppendCommand(nil, args...)
}

// load queues a script for the node.
func (p *Pipe) load(sha string, source []byte) {
	if p.loading == nil {
		p.loading = make(map[string]bool)
	}
	p.loading[sha] = true
	p.append(call{to: &loading{p, sha}, slot: thisNode, raw: true}, scriptLoad(source))
}

// loading is the Receiver of the reply to a SCRIPT LOAD. Whether it went well is told by what runs the
// script, but for a node that forbids it.
type loading struct {
	pipe *Pipe
	sha  string
}

// Receive implements Receiver.
func (l *loading) Receive(_ uint32, chunk []byte, _ bool) {
	delete(l.pipe.loading, l.sha)
	l.pipe.pool.scripts.whole = l.pipe.pool.scripts.whole || resp.Forbidden(chunk)
}

// Fail implements Receiver.
func (l *loading) Fail(uint32, error) { delete(l.pipe.loading, l.sha) }

// Discard implements Receiver.
func (l *loading) Discard(uint32) bool { return true }

// Detour implements Receiver.
func (l *loading) Detour(uint32) {}
