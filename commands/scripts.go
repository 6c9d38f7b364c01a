package commands

import (
	"bytes"
	"crypto/sha1"
	"encoding/hex"
	"sync"
	"sync/atomic"
	"unsafe"

	lru "github.com/hashicorp/golang-lru/v2"

	"lockproxy/cluster"
)

// sha is a SHA1 in the form that EVALSHA takes: 40 lower-case hex digits.
type sha [2 * sha1.Size]byte

const (
	// bytes of a script that is remembered: nodes are given it over shared connections
	MaxSource  = cluster.MaxShared - 1<<10
	maxSources = 64 << 20 // bytes of all of them
)

// Scripts remembers the sources of the scripts that went through, so that a node
// which has lost one can be given it again. It is bounded in number and bytes;
// the least recently used go first. Safe for concurrent use; nothing blocks for
// longer than a lookup or a SHA1.
type Scripts struct {
	// mu guards bySHA, bytes, most and pinned, and keeps the first two in step with recent. Each cache has a
	// mutex of its own besides.
	mu     sync.Mutex
	recent *lru.Cache[string, sha] // by source: a script that is known costs no SHA1
	// of the same strings as recent
	bySHA  map[sha]string
	bytes  int // in recent
	most   int // of bytes
	pinned map[sha][]byte
	homes  *lru.Cache[string, int] // by function: see Home
	named  *lru.Cache[string, int] // by SHA1: see Home

	flushes atomic.Uint64
}

// NewScripts remembers up to n sources.
func NewScripts(n int) *Scripts {
	s := &Scripts{most: maxSources, bySHA: make(map[sha]string), pinned: make(map[sha][]byte)}
	s.recent, _ = lru.NewWithEvict(max(n, 1), func(source string, key sha) {
		delete(s.bySHA, key)
		s.bytes -= len(source)
	})
	s.homes, _ = lru.New[string, int](maxHomes)
	s.named, _ = lru.New[string, int](maxHomes)
	return s
}

// Add remembers a copy of source, if it is not known yet. Whether a client may have it remembered its caller
// decides.
func (s *Scripts) Add(source []byte) {
	if len(source) == 0 || len(source) > MaxSource {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	// The lookup does not keep its key, so it need not be copied.
	if _, known := s.recent.Get(unsafe.String(&source[0], len(source))); known {
		return
	}
	text, key := string(source), digest(source)
	s.bySHA[key] = text
	s.bytes += len(text)
	s.recent.Add(text, key)
	s.shrinkSources()
}

// SetLimit changes how many bytes of sources are remembered, to 64 MiB at most and a sixteenth of that at
// least. 0: 64 MiB.
func (s *Scripts) SetLimit(bytes int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.most = maxSources
	if bytes > 0 {
		s.most = min(max(bytes, maxSources/16), maxSources)
	}
	s.shrinkSources()
}

// Bytes is how many bytes of sources are remembered.
func (s *Scripts) Bytes() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bytes
}

// shrinkSources forgets the least recently used sources beyond the limit. mu is held.
func (s *Scripts) shrinkSources() {
	for s.bytes > s.most {
		s.recent.RemoveOldest()
	}
}

// Knows says that source is remembered.
func (s *Scripts) Knows(source []byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(source) > 0 && s.recent.Contains(unsafe.String(&source[0], len(source)))
}

// Pin remembers source for good, beside the bound, also when Flush is called. It is for scripts of
// lockproxy's own, of which there are few.
func (s *Scripts) Pin(source []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pinned[digest(source)] = bytes.Clone(source)
}

// shaNamed is name, a SHA1 in hex digits of either case. ok is false if its length is wrong. Its digits are
// not checked.
func shaNamed(name []byte) (key sha, ok bool) {
	if len(name) != len(key) {
		return key, false
	}
	for i, b := range name {
		if b >= 'A' && b <= 'Z' {
			b += 'a' - 'A'
		}
		key[i] = b
	}
	return key, true
}

// Get is the source of the script with that SHA1, in hex of either case. It
// must not be changed.
func (s *Scripts) Get(name []byte) (source []byte, ok bool) {
	key, ok := shaNamed(name)
	if !ok {
		return nil, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if source, ok := s.pinned[key]; ok {
		return source, true
	}
	text, ok := s.bySHA[key]
	if ok {
		s.recent.Get(text)
	}
	return unsafe.Slice(unsafe.StringData(text), len(text)), ok // what may have a megabyte is not copied
}

// Flush forgets all but the pinned ones.
func (s *Scripts) Flush() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.recent.Purge()
	s.flushes.Add(1)
}

// Flushes is how often Flush was called. Who has loaded scripts at nodes compares it, to learn that they may
// be gone.
func (s *Scripts) Flushes() uint64 { return s.flushes.Load() }

// digest is the SHA1 of source.
func digest(source []byte) (key sha) {
	sum := sha1.Sum(source)
	hex.Encode(key[:], sum[:])
	return key
}
