package bench

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// Every time is in one bar, bars stand beside each other, and quantiles are right to two digits.
func TestMeasure(t *testing.T) {
	m := measures([]string{"x"})[0]
	if len(m.bars()) != 0 || m.quantile(50) != 0 {
		t.Errorf("nothing measured: %v, %d", m.bars(), m.quantile(50))
	}
	rng := rand.New(rand.NewPCG(1, 2))
	const n = 10_000
	for range n {
		m.note(time.Duration(1+rng.IntN(1000)) * time.Millisecond)
	}
	m.note(-time.Second)
	m.note(time.Hour)
	sum := int64(0)
	for i, b := range m.bars() {
		sum += b.Count
		if b.To != 2*b.From || i > 0 && m.bars()[i-1].To != b.From {
			t.Errorf("%+v", m.bars())
		}
	}
	if sum != n+2 {
		t.Errorf("%d in all bars, and %d were noted", sum, n+2)
	}
	if p50 := m.quantile(50); p50 < 480_000 || p50 > 520_000 {
		t.Errorf("half take %d µs or less", p50)
	}
	two := measures([]string{"x"})[0]
	two.add(m)
	two.add(m)
	if two.times.TotalCount() != 2*(n+2) || two.quantile(90) != m.quantile(90) {
		t.Errorf("%d of two", two.times.TotalCount())
	}
}

func TestShow(t *testing.T) {
	m := measures([]string{"GET"})[0]
	for range 99 {
		m.note(100 * time.Microsecond)
	}
	m.note(3 * time.Millisecond)
	r := report{Proxy: "p\x1b:1", Clients: 2, Locks: 3, Interrupted: true, Timeouts: 4, Measured: []result{
		{Name: "GET", Count: 100, Rate: 50, P50: m.quantile(50), Max: m.times.Max(), Histogram: m.bars()},
		{Name: "SET", Histogram: []bar{}},
	}}
	text := r.table() + r.histograms("#", 80)
	for _, part := range []string{`p\x1b:1, clients: 2, locks: 3`, "WAITs that were used up: " +
		"4", "interrupted",
		"GET               100         50    100µs", " 64µs to    128µs  99.000%  ####", "2.05ms to   " +
			"4.10ms   1.000%  #\n",
		"128µs to    256µs   0.000%\n"} {
		if !strings.Contains(text, part) {
			t.Errorf("lacks %q:\n%s", part, text)
		}
	}
	for line := range strings.Lines(text) {
		if utf8.RuneCountInString(line) > 81 {
			t.Errorf("more than 80 columns: %s", line)
		}
	}
}
