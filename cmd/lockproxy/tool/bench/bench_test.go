package bench

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Quantiles are right to two digits, and nothing that is measured is lost.
func TestMeasure(t *testing.T) {
	m := &benchClient{times: []*hdrhistogram.Histogram{newTimes()}}
	rng := rand.New(rand.NewPCG(1, 2))
	const n = 10_000
	for range n {
		m.noteTime(0, time.Duration(1+rng.IntN(1000))*time.Millisecond)
	}
	m.noteTime(0, -time.Second)
	m.noteTime(0, time.Hour)
	r := resultOf("x", m.times[0], 2*time.Second)
	if r.Count != n+2 || r.Rate != (n+2)/2 || r.P50 < 480_000 || r.P50 > 520_000 ||
		r.Max < longest.Microseconds() {
		t.Errorf("%+v", r)
	}
}

func TestTable(t *testing.T) {
	r := runReport{Proxy: "p\x1b:1", Clients: 2, Locks: 3, Interrupted: true, Timeouts: 4, Measured: []result{
		{Name: "GET", Count: 100, Rate: 50, P50: 100, P90: 1234, P99: 12_345, P999: 123_456, Max: 1_234_567},
		{Name: "SET"},
	}}
	text := r.table()
	for _, part := range []string{`p\x1b:1, clients: 2, locks: 3`, "WAITs that were used up: " +
		"4", "interrupted",
		"GET               100         50    100µs   1.23ms   12.3ms    123ms    1.23s",
		"SET                 0          0        -"} {
		if !strings.Contains(text, part) {
			t.Errorf("lacks %q:\n%s", part, text)
		}
	}
}
