package bench

import (
	"fmt"
	"io"
	"strings"
	"time"

	"lockproxy/cmd/lockproxy/tool/terminal"
)

// runReport is all of a run.
type runReport struct {
	Proxy       string   `json:"proxy"`
	Clients     int      `json:"clients"`
	Locks       int      `json:"locks"`
	Seconds     float64  `json:"seconds"` // that were asked for
	Interrupted bool     `json:"interrupted"`
	Timeouts    int64    `json:"timeouts"`
	Measured    []result `json:"measured"`
}

// show prints what was measured.
func (r *benchRun) show(interrupted bool) error {
	all := runReport{Proxy: r.at.Addr, Clients: r.clients, Locks: max(r.locks, r.clients),
		Seconds: r.time.Seconds(), Interrupted: interrupted, Timeouts: r.timeouts.Load(),
		Measured: []result{}}
	for _, m := range r.measured {
		all.Measured = append(all.Measured, m.result())
	}
	to := r.call.Stdout
	if r.json {
		return terminal.WriteJSON(to, all, "  ")
	}
	if len(all.Measured) == 0 {
		return nil
	}
	_, err := io.WriteString(to, all.table())
	return err
}

// table is a line for each kind.
func (r runReport) table() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, clients: %d, locks: %d\n\n", terminal.Safe(r.Proxy), r.Clients, r.Locks)
	fmt.Fprintf(&b, "%-10s %10s %10s %8s %8s %8s %8s "+
		"%8s\n", "", "count", "a second", "p50", "p90", "p99", "p99.9",
		"max")
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
