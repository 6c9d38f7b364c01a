package pipe

import (
	"bytes"
	"crypto/sha1"
	"time"

	"lockproxy/cluster/retry"
	"lockproxy/internal/resp"
)

// maxLoaded is how many bytes of scripts a loop loads at nodes in one round, not counting the last script.
// All other clients of the loop wait while scripts are found and copied.
const maxLoaded = 1 << 20

// scriptLoads loads scripts at nodes that have lost them, for one loop.
type scriptLoads struct {
	// source is the script with this SHA1 (40 hex digits). nil: NOSCRIPT is passed on.
	source   func(sha []byte) (source []byte, ok bool)
	together map[string]string // see Options.Together
	round    time.Time         // the round of the loop that loaded counts in
	loaded   int               // bytes
	whole    bool              // a node forbids SCRIPT LOAD: requests carry the script
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

// heal has the node of pipe run req once more, behind the script that it lacks. The script is loaded once
// for all requests that need it, and in a later round if enough was loaded in this one. The node may lose it
// again before the request arrives (SCRIPT FLUSH, or it was still loading when it got the script); a request
// that may run twice then tries again, a few times. Where SCRIPT LOAD is forbidden, the request becomes an
// EVAL.
func (p *Pool) heal(pipe *Pipe, c call, req, reply []byte) bool {
	if c.healed && !p.scripts.whole && !(c.resend && c.try.Hop()) {
		return false
	}
	sha, ok := p.scripts.named(req)
	if !ok {
		return false
	}
	req = lasting(req) // it may lie in the backlog of pipe, which changes
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
			loadWith(pipe, string(sha))
		}
	}
	p.stats.Redirects[retry.NoScript].Add(1)
	c.healed = true
	c.to.Detour(c.tag)
	pipe.append(&c, req)
	return true
}

// nextRound has the request sent again soon, and does not count that as a try.
func (p *Pool) nextRound(pipe *Pipe, c call, req, reply []byte) {
	if d := p.later(pipe.addr, pipe.mode, c, req, bytes.Clone(reply), nil); d != nil {
		d.try, d.next = c.try, p.loop.Now()
	}
}

// sourceFor returns the script that req runs and its node has lost, and counts that.
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

// scriptLoad is the SCRIPT LOAD of a source.
func scriptLoad(source []byte) []byte {
	return resp.AppendCommand(nil, []byte("SCRIPT"), []byte("LOAD"), source)
}

// withSource turns req, which runs a script by its SHA1, into the EVAL or EVAL_RO that does the same.
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
	p.append(&call{to: &loading{p, sha}, slot: thisNode, raw: true}, scriptLoad(source))
}

// loadWith loads the scripts that are loaded together with the one named, if there are any.
func loadWith(p *Pipe, sha string) {
	together := p.pool.scripts.together
	if _, ok := together[sha]; !ok {
		return
	}
	for other, source := range together {
		if !p.loading[other] {
			p.load(other, []byte(source))
		}
	}
}

// loading is the Receiver of the reply to a SCRIPT LOAD. Success shows when the script runs; only a node
// that forbids SCRIPT LOAD is noted here.
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
