package pipe

import (
	"bytes"
	"crypto/sha1"
	"time"

	"lockproxy/internal/resp"
)

// This file gives nodes the scripts that clients run by their SHA1. A script goes ahead of the first request
// that needs it, unless the node is known to have it; so nothing of the client overtakes that request. What
// is known of a node is forgotten when a connection to it breaks, and when scripts are flushed:
//
//	appendRequest --> ahead --> SCRIPT LOAD, EVALSHA --> node
//	                  redirect --> healScript <-- -NOSCRIPT, from a node that has lost it all the same

// maxThere is how many scripts are noted of one node.
const maxThere = 10_000

// maxLoaded is how many bytes of scripts a loop loads at nodes in one round, not counting the last script.
// All other clients of the loop wait while scripts are found and copied.
const maxLoaded = 1 << 20

// scriptLoads loads scripts at nodes, for one loop.
type scriptLoads struct {
	// source is the script with this SHA1 (40 hex digits). nil: NOSCRIPT is passed on.
	source  func(sha []byte) (source []byte, ok bool)
	flushes func() uint64              // see Options.Flushes
	there   map[string]map[string]bool // the scripts that nodes have, by address and SHA1
	usual   [64]usual                  // some of them, see usualPlace
	flushed uint64                     // flushes when that was so
	round   time.Time                  // the round of the loop that loaded counts in
	loaded  int                        // bytes
	whole   bool                       // a node forbids SCRIPT LOAD: requests carry the script
}

// usual is a script that a node has, and that was run there lately.
type usual struct {
	addr string
	sha  hexSHA
}

// usualPlace is where a script may be among the usual ones. sha has 40 digits; the last two choose, and a
// later script takes the place of an earlier one.
func (s *scriptLoads) usualPlace(sha []byte) *usual { return &s.usual[(sha[38]<<4+sha[39])%64] }

// evalsha is how requests begin that run a script, behind the number of their words and in front of its SHA1.
const evalsha = "\n$7\r\nEVALSHA\r\n$40\r\n"

// ranLately says that the node at addr has the script that req runs, because that was so when it last ran it.
// It costs less than to look.
func (s *scriptLoads) ranLately(addr string, req []byte) bool {
	at := bytes.IndexByte(req, '\n')
	if at < 0 || len(req) < at+len(evalsha)+len(hexSHA{}) || string(req[at:at+len(evalsha)]) != evalsha {
		return false
	}
	sha := req[at+len(evalsha):][:len(hexSHA{})]
	u := s.usualPlace(sha)
	return string(u.sha[:]) == string(sha) && u.addr == addr
}

// hexSHA has room for a SHA1.
type hexSHA [2 * sha1.Size]byte

// shaOf is the SHA1 of the script that req may run, in lower case. It is kept in buf.
func (s *scriptLoads) shaOf(req []byte, buf *hexSHA) (sha []byte, ok bool) {
	if s.source == nil {
		return nil, false
	}
	_, rest, _ := bytes.Cut(req, []byte("\n"))
	_, rest, err := resp.Parse(rest)
	if err != nil {
		return nil, false
	}
	v, _, err := resp.Parse(rest)
	if err != nil || len(v.Str) > len(buf) { // no script has such a name
		return nil, false
	}
	for i, b := range v.Str {
		if buf[i] = b; b >= 'A' && b <= 'Z' {
			buf[i] += 'a' - 'A'
		}
	}
	return buf[:len(v.Str)], true
}

// ahead loads the script that req is about to run at the node of pipe, if it is known and may be missing
// there. It does not where many bytes are loaded already, nor for users of the upstream, who may not be
// allowed to.
func (s *scriptLoads) ahead(pipe *Pipe, req []byte) {
	if s.whole || pipe.Special() {
		return
	}
	if s.flushes != nil && s.flushed != s.flushes() {
		s.flushed = s.flushes()
		clear(s.there)
		s.usual = [64]usual{}
	}
	if s.ranLately(pipe.addr, req) {
		return
	}
	var buf hexSHA
	sha, ok := s.shaOf(req, &buf)
	if ok && s.there[pipe.addr][string(sha)] {
		if len(sha) == len(buf) {
			*s.usualPlace(sha) = usual{pipe.addr, buf}
		}
		return
	}
	if !ok || pipe.loading[string(sha)] || s.roundIsFull(pipe.loop.Now()) {
		return
	}
	if source, ok := s.source(bytes.Clone(sha)); ok { // so that buf need not be allocated
		s.loaded += len(source)
		s.loadScript(pipe, string(sha), source)
	}
}

// forgetScripts forgets which scripts the node at addr has. The usual ones of all nodes go, too; those of
// others are found in there again.
func (s *scriptLoads) forgetScripts(addr string) {
	delete(s.there, addr)
	s.usual = [64]usual{}
}

// noteLost forgets which scripts the node at addr has, because it lacks that of req, which it had.
func (s *scriptLoads) noteLost(addr string, req []byte) {
	if sha, ok := s.shaOf(req, new(hexSHA)); ok && s.there[addr][string(sha)] {
		s.forgetScripts(addr)
	}
}

// noteScript notes that the node at addr has a script. A node that has too many noted begins anew, so the
// memory is bounded.
func (s *scriptLoads) noteScript(addr, sha string) {
	if there := s.there[addr]; there == nil || len(there) >= maxThere {
		s.forgetScripts(addr)
		s.there[addr] = make(map[string]bool)
	}
	s.there[addr][sha] = true
}

// roundIsFull says that no more may be loaded in the round that began at now.
func (s *scriptLoads) roundIsFull(now time.Time) bool {
	if s.round != now {
		s.round, s.loaded = now, 0
	}
	return s.loaded >= maxLoaded
}

// sourceFor returns the script that req runs and its node has lost.
func (s *scriptLoads) sourceFor(req []byte) (source []byte, ok bool) {
	sha, ok := s.shaOf(req, new(hexSHA))
	if !ok {
		return nil, false
	}
	return s.source(sha)
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

// loadScript queues a script for the node of p, and notes when it has it, or that it forbids SCRIPT LOAD. The
// pipe runs it before whatever is queued later.
func (s *scriptLoads) loadScript(p *Pipe, sha string, source []byte) {
	if p.loading == nil {
		p.loading = make(map[string]bool)
	}
	p.loading[sha] = true
	p.askNode(scriptLoad(source), func(reply []byte, err error) {
		delete(p.loading, sha)
		if err != nil {
			return
		}
		if s.whole = s.whole || resp.Forbidden(reply); !isErrorReply(reply) {
			s.noteScript(p.addr, sha)
		}
	})
}
