package bench

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"lockproxy/cmd/lockproxy/tool/terminal"
)

// runReport is all of a run. Its names are what scripts read: they stay.
type runReport struct {
	Proxy       string   `json:"proxy"`
	Clients     int      `json:"clients"`
	Locks       int      `json:"locks"`
	Seconds     float64  `json:"seconds"` // that were asked for
	Interrupted bool     `json:"interrupted"`
	Timeouts    int64    `json:"timeouts"`
	Measured    []result `json:"measured"`
}

// result is what was measured of one kind. Quantiles and Max are in µs, to two digits.
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

// resultOf counts what was measured in took, the length of the phase with its last answers.
func resultOf(name string, times *hdrhistogram.Histogram, took time.Duration) result {
	n, q := times.TotalCount(), times.ValueAtQuantile
	return result{Name: name, Count: n, Rate: float64(n) / took.Seconds(), P50: q(50), P90: q(90), P99: q(99),
		P999: q(99.9), Max: times.Max()}
}

// showReport prints what was measured.
func (r *benchRun) showReport(to io.Writer) error {
	if r.json {
		return terminal.WriteJSON(to, r.runReport, "  ")
	}
	if len(r.Measured) == 0 {
		return nil
	}
	_, err := io.WriteString(to, r.table())
	return err
}

// table is a line for each kind.
func (r runReport) table() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, clients: %d, locks: %d\n\n", terminal.Safe(r.Proxy), r.Clients, r.Locks)
	fmt.Fprintf(&b, "%-10s %10s %10s %8s %8s %8s %8s %8s\n", "", "count", "a second", "p50", "p90", "p99",
		"p99.9", "max")
	for _, m := range r.Measured {
		fmt.Fprintf(&b, "%-10s %10d %10.0f", m.Name, m.Count, m.Rate)
		for _, us := range []int64{m.P50, m.P90, m.P99, m.P999, m.Max} {
			text := "-"
			if m.Count > 0 {
				text = terminal.Brief(time.Duration(us) * time.Microsecond)
			}
			fmt.Fprintf(&b, " %8s", text)
		}
		b.WriteByte('\n')
	}
	if r.Timeouts > 0 {
		fmt.Fprintf(&b, "WAITs that were used up: %d\n", r.Timeouts)
	}
	if r.Interrupted {
		b.WriteString("interrupted: the last phase is not whole\n")
	}
	return b.String()
}
