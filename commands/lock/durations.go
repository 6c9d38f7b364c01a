package lock

import (
	"slices"
	"sync/atomic"
	"time"
)

// durationLimits are the upper bounds of the buckets of durations: of how long clients wait for locks and
// hold them. The last bucket has none.
var durationLimits = [...]time.Duration{
	100 * time.Microsecond, 250 * time.Microsecond, 500 * time.Microsecond,
	time.Millisecond, 2500 * time.Microsecond, 5 * time.Millisecond,
	10 * time.Millisecond, 25 * time.Millisecond, 50 * time.Millisecond,
	100 * time.Millisecond, 250 * time.Millisecond, 500 * time.Millisecond,
	time.Second, 2500 * time.Millisecond, 5 * time.Second,
	10 * time.Second, 30 * time.Second, time.Minute,
	2 * time.Minute, 5 * time.Minute, 10 * time.Minute,
}

// durations counts durations by buckets. Safe for concurrent use.
type durations struct {
	buckets [len(durationLimits) + 1]atomic.Uint64
	nanos   atomic.Uint64 // their sum
}

func (d *durations) observe(took time.Duration) {
	took = max(took, 0)
	i, _ := slices.BinarySearch(durationLimits[:], took)
	d.buckets[i].Add(1)
	d.nanos.Add(uint64(took))
}

// Durations is what was counted of one kind of durations.
type Durations struct {
	Verb    string // lock, rlock or semlock
	Prefix  string // of the names of the locks, as Options of the Ledger have it; "": all others
	Outcome string
	Count   uint64
	Sum     time.Duration
	Below   map[float64]uint64 // by upper bound in seconds: how many were not longer
}

// list appends what d has counted, unless that is nothing.
func (d *durations) list(all []Durations, verb, prefix, outcome string) []Durations {
	one := Durations{Verb: verb, Prefix: prefix, Outcome: outcome, Sum: time.Duration(d.nanos.Load())}
	for i := range d.buckets {
		one.Count += d.buckets[i].Load()
	}
	if one.Count == 0 {
		return all
	}
	one.Below = make(map[float64]uint64, len(durationLimits))
	below := uint64(0)
	for i, limit := range durationLimits {
		below += d.buckets[i].Load()
		one.Below[limit.Seconds()] = below
	}
	one.Count = max(one.Count, below) // some may have come meanwhile
	return append(all, one)
}
