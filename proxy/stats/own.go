package stats

import (
	"bytes"
	"maps"
	"slices"
	"strings"
	"sync"

	"lockproxy/commands"
)

// maxErrorWords bounds the kinds of errors that are counted separately. Newer versions of Redis stop at 128,
// too. Scripts and modules can make up any number of words; those beyond are not counted.
const maxErrorWords = 128

// Own counts what the proxy does itself; it implements commands.OwnStats. CONFIG RESETSTAT must not touch the
// counters of the metrics, which only rise. So it notes what they were, and that is subtracted. Safe for
// concurrent use.
type Own struct {
	counters *Counters
	total    func() commands.Stats // since the start

	mu     sync.Mutex
	errors map[string]uint64
	// At the last Reset, by command and as a whole. Zero before the first one, so that all since the start
	// counts.
	base  map[string]commands.OwnCommand
	stats commands.Stats
}

// NewOwn counts with these counters; total are the counts of the proxy since its start.
func NewOwn(counters *Counters, total func() commands.Stats) *Own {
	return &Own{counters: counters, total: total, errors: make(map[string]uint64)}
}

// Note counts a reply of the proxy if it is an error.
func (o *Own) Note(reply []byte) {
	if len(reply) > 0 && reply[0] == '-' {
		o.countError(reply)
	}
}

// countError counts an error that the proxy made. It is counted by its first word, as INFO errorstats of
// Redis does: WRONGTYPE, NOAUTH, ERR ...
func (o *Own) countError(reply []byte) {
	word, _, _ := bytes.Cut(bytes.TrimRight(reply[1:], "\r\n"), []byte(" "))
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, known := o.errors[string(word)]; known || len(o.errors) < maxErrorWords {
		o.errors[string(word)]++
	}
}

// Errors implements commands.OwnStats.
func (o *Own) Errors() map[string]uint64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return maps.Clone(o.errors)
}

// Commands implements commands.OwnStats.
func (o *Own) Commands() []commands.OwnCommand {
	o.mu.Lock() // before the counts are read: those of a Reset in between would be larger
	defer o.mu.Unlock()
	all := o.rawCounts()
	var own []commands.OwnCommand
	for name, one := range all {
		was := o.base[name]
		one.Calls, one.Rejected = one.Calls-was.Calls, one.Rejected-was.Rejected
		one.Failed, one.Micros = one.Failed-was.Failed, one.Micros-was.Micros
		if one.Calls > 0 || one.Rejected > 0 {
			own = append(own, one)
		}
	}
	slices.SortFunc(own, func(a, b commands.OwnCommand) int { return strings.Compare(a.Name, b.Name) })
	return own
}

// rawCounts returns the counts since the start. The loops go on counting meanwhile.
func (o *Own) rawCounts() map[string]commands.OwnCommand {
	all := make(map[string]commands.OwnCommand)
	for _, c := range o.counters.listCounters() {
		one := all[c.Name]
		one.Name = c.Name
		one.Calls += c.own.Load()
		one.Rejected += c.rejected.Load()
		one.Failed += c.ownFailed.Load()
		one.Micros += c.ownNanos.Load() / 1000
		all[c.Name] = one
	}
	return all
}

// Reset implements commands.OwnStats.
func (o *Own) Reset() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.errors, o.base, o.stats = make(map[string]uint64), o.rawCounts(), o.total()
}

// SinceReset are the counts of the proxy since the last Reset.
func (o *Own) SinceReset() commands.Stats {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := o.total()
	return now.Since(&o.stats)
}
