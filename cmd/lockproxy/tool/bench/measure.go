package bench

import (
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// longest is the longest time that is told apart from longer ones.
const longest = 10 * time.Minute

// measure is the times of one kind, in µs, to two digits. It is used by one goroutine at a time.
type measure struct {
	kind  string
	times *hdrhistogram.Histogram
}

func measures(kinds []string) []*measure {
	var all []*measure
	for _, kind := range kinds {
		all = append(all, &measure{kind, hdrhistogram.New(1, longest.Microseconds(), 2)})
	}
	return all
}

// note adds a time.
func (m *measure) note(d time.Duration) {
	// The bounds are kept, so there is no error.
	m.times.RecordValue(min(max(d, time.Microsecond), longest).Microseconds())
}

// add adds all times of o.
func (m *measure) add(o *measure) { m.times.Merge(o.times) }

// quantile is the time that q percent of all do not exceed, in µs.
func (m *measure) quantile(q float64) int64 { return m.times.ValueAtQuantile(q) }

// bar is one line of a histogram: how many took at least From and less than To, in µs.
type bar struct {
	From  int64 `json:"from_us"`
	To    int64 `json:"to_us"`
	Count int64 `json:"count"`
}

// bars are all times, each twice as long as the one before.
func (m *measure) bars() []bar {
	all := []bar{}
	for _, b := range m.times.Distribution() {
		if b.Count == 0 {
			continue
		}
		from := int64(1)
		for from*2 <= b.From {
			from *= 2
		}
		if n := len(all); n > 0 && all[n-1].From == from {
			all[n-1].Count += b.Count
			continue
		}
		for n := len(all); n > 0 && all[n-1].To < from; n++ { // none took so long
			all = append(all, bar{all[n-1].To, 2 * all[n-1].To, 0})
		}
		all = append(all, bar{from, 2 * from, b.Count})
	}
	return all
}
