// Package script is about the scripts that clients run: what their requests look like (request.go), what they
// may say in the words of Redis, and which nodes have them.
//
// Nodes are given the scripts that clients run by their SHA1. A script goes ahead of the first request that
// needs it, unless the node is known to have it; so nothing of the client overtakes that request. What is
// known of a node is forgotten when a connection to it breaks, and when scripts are flushed:
//
//	a request --> Missing --> SCRIPT LOAD, EVALSHA --> node
//	   again, behind SCRIPT LOAD <-- Lost <-- -NOSCRIPT, from a node that has lost it all the same
package script

import (
	"bytes"
	"crypto/sha1"
	"time"

	"lockproxy/internal/resp"
)

// maxThere is how many scripts are noted of one node.
const maxThere = 10_000

// maxLoaded is how many bytes of scripts a loop loads at nodes in one round, not counting the last script.
// All other clients of the loop wait while scripts are found and copied.
const maxLoaded = 1 << 20

// Inventory is which scripts the proxy has, and which nodes have them as far as it knows, for one loop.
type Inventory struct {
	// Forbidden: a node forbids SCRIPT LOAD, so requests carry the script.
	Forbidden bool

	source  func(sha []byte) (source []byte, ok bool)
	flushes func() uint64
	there   map[string]map[string]bool // the scripts that nodes have, by address and SHA1
	usual   [64]usual                  // some of them, see usualPlace
	flushed uint64                     // flushes when that was so
	round   time.Time                  // the round of the loop that loaded counts in
	loaded  int                        // bytes
}

// NewInventory knows no node yet. source is the script with this SHA1 (40 hex digits); nil: NOSCRIPT is
// passed on. flushes is how often all nodes were told to forget their scripts; nil: never.
func NewInventory(source func(sha []byte) (source []byte, ok bool), flushes func() uint64) Inventory {
	return Inventory{source: source, flushes: flushes, there: make(map[string]map[string]bool)}
}

// usual is a script that a node has, and that was run there lately.
type usual struct {
	addr string
	sha  hexSHA
}

// usualPlace is where a script may be among the usual ones. sha has 40 digits; the last two choose, and a
// later script takes the place of an earlier one.
func (s *Inventory) usualPlace(sha []byte) *usual { return &s.usual[(sha[38]<<4+sha[39])%64] }

// evalsha is how requests begin that run a script, behind the number of their words and in front of its SHA1.
const evalsha = "\n$7\r\nEVALSHA\r\n$40\r\n"

// ranLately says that the node at addr has the script that req runs, because that was so when it last ran it.
// It costs less than to look.
func (s *Inventory) ranLately(addr string, req []byte) bool {
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
func (s *Inventory) shaOf(req []byte, buf *hexSHA) (sha []byte, ok bool) {
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

// Missing is the script that req is about to run at the node at addr, if it is known and may be missing
// there: it is to be loaded. nil: it is not, as where many bytes are loaded already. loading has what is on
// its way to the node.
func (s *Inventory) Missing(addr string, req []byte, loading map[string]bool, now time.Time) (
	sha string, source []byte,
) {
	if s.flushes != nil && s.flushed != s.flushes() {
		s.flushed = s.flushes()
		clear(s.there)
		s.usual = [64]usual{}
	}
	if s.ranLately(addr, req) {
		return "", nil
	}
	var buf hexSHA
	name, ok := s.shaOf(req, &buf)
	if ok && s.there[addr][string(name)] {
		if len(name) == len(buf) {
			*s.usualPlace(name) = usual{addr, buf}
		}
		return "", nil
	}
	if !ok || loading[string(name)] || s.RoundIsFull(now) {
		return "", nil
	}
	sha = string(name) // so that buf need not be allocated
	source, _ = s.Source(sha)
	return sha, source
}

// SHA is the SHA1 of the script that req may run, in lower case.
func (s *Inventory) SHA(req []byte) (sha string, ok bool) {
	name, ok := s.shaOf(req, new(hexSHA))
	return string(name), ok
}

// Source is the script with that SHA1, which is about to be loaded.
func (s *Inventory) Source(sha string) (source []byte, ok bool) {
	source, ok = s.source([]byte(sha))
	s.loaded += len(source)
	return source, ok
}

// Forget forgets which scripts the node at addr has. The usual ones of all nodes go, too; those of
// others are found in there again.
func (s *Inventory) Forget(addr string) {
	delete(s.there, addr)
	s.usual = [64]usual{}
}

// Lost forgets which scripts the node at addr has, because it lacks that of req, which it had.
func (s *Inventory) Lost(addr string, req []byte) {
	if sha, ok := s.SHA(req); ok && s.there[addr][sha] {
		s.Forget(addr)
	}
}

// Given notes that the node at addr has a script. A node that has too many noted begins anew, so the memory
// is bounded.
func (s *Inventory) Given(addr, sha string) {
	if there := s.there[addr]; there == nil || len(there) >= maxThere {
		s.Forget(addr)
		s.there[addr] = make(map[string]bool)
	}
	s.there[addr][sha] = true
}

// RoundIsFull says that no more may be loaded in the round that began at now.
func (s *Inventory) RoundIsFull(now time.Time) bool {
	if s.round != now {
		s.round, s.loaded = now, 0
	}
	return s.loaded >= maxLoaded
}
