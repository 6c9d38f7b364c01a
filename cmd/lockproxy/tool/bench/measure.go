package bench

import (
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// longest is the longest time that is told apart from longer ones.
const longest = 10 * time.Minute

// timings is the times of one kind, in µs, to two digits. It is used by one goroutine at a time.
type timings struct {
	kind  string
	took  time.Duration // for how long it was measured
	times *hdrhistogram.Histogram
}

func measures(kinds []string) []*timings {
	var all []*timings
	for _, kind := range kinds {
		all = append(all, &timings{kind: kind, times: hdrhistogram.New(1, longest.Microseconds(), 2)})
	}
	return all
}

// note adds a time.
func (m *timings) note(d time.Duration) {
	// The bounds are kept, so there is no error.
	m.times.RecordValue(min(max(d, time.Microsecond), longest).Microseconds())
}

// result is what was measured of one kind.
type result struct {
	Name  string  `json:"name"`
	Count int64   `json:"count"`
	Rate  float64 `json:"per_second"`
	P50   int64   `json:"p50_us"`
	P90   int64   `json:"p90_us"`
	P99   int64   `json:"p99_us"`
	P999  int64   `json:"p999_us"`
	Max   int64   `json:"max_us"`
}

func (m *timings) result() result {
	n, q := m.times.TotalCount(), m.times.ValueAtQuantile
	return result{Name: m.kind, Count: n, Rate: float64(n) / m.took.Seconds(), P50: q(50), P90: q(90),
		P99: q(99), P999: q(99.9), Max: m.times.Max()}
}
