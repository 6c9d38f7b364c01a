package proxy

import (
	"bytes"
	"maps"
	"slices"
	"strings"
	"sync"

	"lockproxy/commands"
)

// maxErrorWords bounds the kinds of errors that are counted separately.
const maxErrorWords = 128

// ownStats counts what the proxy does itself; it implements commands.OwnStats. CONFIG RESETSTAT must not
// touch the counters of the metrics, which only rise. So it notes what they were, and that is subtracted.
type ownStats struct {
	s *Server

	mu     sync.Mutex
	errors map[string]uint64
	base   map[string]commands.OwnCommand
	stats  commands.Stats
}

// OwnStats implements commands.Server.
func (v whole) OwnStats() commands.OwnStats { return &v.s.ownStats }

// note counts a reply of the proxy if it is an error.
func (b *ownStats) note(reply []byte) {
	if len(reply) > 0 && reply[0] == '-' {
		b.erred(reply)
	}
}

// erred counts an error that the proxy made.
func (b *ownStats) erred(reply []byte) {
	word, _, _ := bytes.Cut(bytes.TrimRight(reply[1:], "\r\n"), []byte(" "))
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, known := b.errors[string(word)]; known || len(b.errors) < maxErrorWords {
		b.errors[string(word)]++
	}
}

// Errors implements commands.OwnStats.
func (b *ownStats) Errors() map[string]uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return maps.Clone(b.errors)
}

// Commands implements commands.OwnStats.
func (b *ownStats) Commands() []commands.OwnCommand {
	all := b.raw()
	b.mu.Lock()
	defer b.mu.Unlock()
	var own []commands.OwnCommand
	for name, o := range all {
		was := b.base[name]
		o.Calls, o.Rejected, o.Failed, o.Micros = o.Calls-was.Calls, o.Rejected-was.Rejected,
			o.Failed-was.Failed,
			o.Micros-was.Micros
		if o.Calls > 0 || o.Rejected > 0 {
			own = append(own, o)
		}
	}
	slices.SortFunc(own, func(a, b commands.OwnCommand) int { return strings.Compare(a.Name, b.Name) })
	return own
}

// raw returns the counts since the start.
func (b *ownStats) raw() map[string]commands.OwnCommand {
	all := make(map[string]commands.OwnCommand)
	for _, c := range b.s.counters.list() {
		o := all[c.name]
		o.Name = c.name
		o.Calls += c.own.Load()
		o.Rejected += c.rejected.Load()
		o.Failed += c.ownFailed.Load()
		o.Micros += c.ownNanos.Load() / 1000
		all[c.name] = o
	}
	return all
}

// Reset implements commands.OwnStats.
func (b *ownStats) Reset() {
	all, stats := b.raw(), b.s.shared()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.errors, b.base, b.stats = make(map[string]uint64), all, stats
}

// since makes the counters in stats begin at the last Reset.
func (b *ownStats) since(stats commands.Stats) commands.Stats {
	b.mu.Lock()
	defer b.mu.Unlock()
	return stats.Since(&b.stats)
}
