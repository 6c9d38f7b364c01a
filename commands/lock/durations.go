package lock

import (
	"slices"
	"sync/atomic"
	"time"
)

// durationLimits are the upper bounds of the buckets of durations: of how long clients wait for locks and
// hold them. The last bucket has none. They ascend.
var durationLimits = [...]time.Duration{
	100 * time.Microsecond, 250 * time.Microsecond, 500 * time.Microsecond,
	time.Millisecond, 2500 * time.Microsecond, 5 * time.Millisecond,
	10 * time.Millisecond, 25 * time.Millisecond, 50 * time.Millisecond,
	100 * time.Millisecond, 250 * time.Millisecond, 500 * time.Millisecond,
	time.Second, 2500 * time.Millisecond, 5 * time.Second,
	10 * time.Second, 30 * time.Second, time.Minute,
	2 * time.Minute, 5 * time.Minute, 10 * time.Minute,
}

// durations counts durations by buckets. Safe for concurrent use. A reader may see a bucket before the sum,
// or the other way round: each is right for itself.
type durations struct {
	buckets [len(durationLimits) + 1]atomic.Uint64
	// micros is their sum: a time.Duration would be full in days where ten thousand locks are held all the
	// time
	micros atomic.Uint64
}

// countDuration counts one. A clock that was set back gives a negative one, which counts as 0.
func (d *durations) countDuration(took time.Duration) {
	took = max(took, 0)
	i, _ := slices.BinarySearch(durationLimits[:], took)
	d.buckets[i].Add(1)
	d.micros.Add(uint64(took.Microseconds()))
}

// Durations is what was counted of one kind of durations. It has the form of a Prometheus histogram: buckets
// include those below them.
type Durations struct {
	Verb    string // lock, rlock or semlock
	Prefix  string // of the names of the locks, as Options of the Ledger have it; "": all others
	Outcome string
	Count   uint64
	Sum     float64            // in seconds
	Below   map[float64]uint64 // by upper bound in seconds: how many were not longer
}

// appendCounted appends what d has counted, unless that is nothing.
func (d *durations) appendCounted(all []Durations, verb, prefix, outcome string) []Durations {
	one := Durations{Verb: verb, Prefix: prefix, Outcome: outcome, Sum: float64(d.micros.Load()) / 1e6}
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
	// A histogram must not have more in a bucket than in all.
	one.Count = max(one.Count, below) // some may have come meanwhile
	return append(all, one)
}
