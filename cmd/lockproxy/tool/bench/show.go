package bench

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"lockproxy/cmd/lockproxy/tool"
	"lockproxy/cmd/lockproxy/tool/terminal"
)

// progress tells how far a run is, on standard error.
type progress struct {
	to   io.Writer
	live bool // it is a terminal: one line, over and over
}

func newProgress(c *tool.Call) *progress {
	return &progress{to: c.Stderr, live: terminal.Is(c.Stderr)}
}

// erase goes to the beginning of the line, which is empty then.
const erase = "\r\x1b[K"

// during waits for the end of the phase.
func (p *progress) during(f *phase, length time.Duration, working *sync.WaitGroup) {
	if !p.live {
		fmt.Fprintf(p.to, "%s: %s, for %s\n", f.name, f.about, tool.Short(length))
		working.Wait()
		return
	}
	over := make(chan struct{})
	go func() { working.Wait(); close(over) }() // ends with the phase
	began, last, before := time.Now(), time.Now(), int64(0)
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-over:
			return
		case now := <-tick.C:
			done := f.done.Load()
			rate := float64(done-before) / now.Sub(last).Seconds()
			last, before = now, done
			line := fmt.Sprintf("%s: %s  %s  %.0f a second", f.name, f.about,
				passed(now.Sub(began), length), rate)
			width, _ := terminal.Size(p.to)
			fmt.Fprint(p.to, erase+terminal.Cut(line, width-1))
		}
	}
}

// passed says how much of length is over, in seconds, or more finely if length is a few of them.
func passed(done, length time.Duration) string {
	unit := time.Second
	if length < 10*time.Second {
		unit = 100 * time.Millisecond
	}
	return tool.Short(min(done.Round(unit), length)) + " of " + tool.Short(length)
}

func (p *progress) end() {
	if p.live {
		fmt.Fprint(p.to, erase)
	}
}

// result is what was measured of one kind.
type result struct {
	Name      string  `json:"name"`
	Count     int64   `json:"count"`
	Rate      float64 `json:"per_second"`
	P50       int64   `json:"p50_us"`
	P90       int64   `json:"p90_us"`
	P99       int64   `json:"p99_us"`
	P999      int64   `json:"p999_us"`
	Max       int64   `json:"max_us"`
	Histogram []bar   `json:"histogram"`
}

// report is all of a run.
type report struct {
	Proxy       string   `json:"proxy"`
	Clients     int      `json:"clients"`
	Locks       int      `json:"locks"`
	Seconds     float64  `json:"seconds"` // that were asked for
	Interrupted bool     `json:"interrupted"`
	Timeouts    int64    `json:"timeouts"`
	Measured    []result `json:"measured"`
}

func (r *run) report(interrupted bool) report {
	all := report{Proxy: r.asked.at.Addr, Clients: r.asked.clients, Locks: max(r.asked.locks,
		r.asked.clients),
		Seconds: r.asked.time.Seconds(), Interrupted: interrupted, Timeouts: r.timeouts.Load(),
		Measured: []result{}}
	for _, f := range r.phases {
		for _, m := range f.sums {
			n := m.times.TotalCount()
			all.Measured = append(all.Measured, result{
				Name: m.kind, Count: n, Rate: float64(n) / f.took.Seconds(), P50: m.quantile(50),
				P90: m.quantile(90),
				P99: m.quantile(99), P999: m.quantile(99.9), Max: m.times.Max(), Histogram: m.bars(),
			})
		}
	}
	return all
}

// show prints what was measured.
func (a *asked) show(c *tool.Call, r *run, interrupted bool) error {
	all := r.report(interrupted)
	if a.json {
		return terminal.WriteJSON(c.Stdout, all, "  ")
	}
	if len(all.Measured) == 0 {
		return nil
	}
	full, width := "#", 80
	if terminal.Is(c.Stdout) {
		full = "█"
		width, _ = terminal.Size(c.Stdout)
	}
	_, err := io.WriteString(c.Stdout, all.table()+all.histograms(full, width))
	return err
}

// table is a line for each kind.
func (r report) table() string {
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
				text = brief(us)
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

// histograms are bars of full for each kind, in width columns.
func (r report) histograms(full string, width int) string {
	const left = 32 // before the bars
	longest := min(max(width-left, 10), 60)
	var b strings.Builder
	for _, m := range r.Measured {
		if m.Count == 0 {
			continue
		}
		fmt.Fprintf(&b, "\n%s\n", m.Name)
		most := int64(1)
		for _, one := range m.Histogram {
			most = max(most, one.Count)
		}
		for _, one := range m.Histogram {
			n := int(one.Count * int64(longest) / most)
			if one.Count > 0 {
				n = max(n, 1)
			}
			line := fmt.Sprintf("%9s to %8s %7.3f%%  %s", brief(one.From), brief(one.To),
				100*float64(one.Count)/float64(m.Count), strings.Repeat(full, n))
			b.WriteString(strings.TrimRight(line, " ") + "\n")
		}
	}
	return b.String()
}

// brief is a time of µs with three digits.
func brief(us int64) string {
	switch {
	case us < 1000:
		return fmt.Sprintf("%dµs", us)
	case us < 10_000:
		return fmt.Sprintf("%.2fms", float64(us)/1e3)
	case us < 100_000:
		return fmt.Sprintf("%.1fms", float64(us)/1e3)
	case us < 1_000_000:
		return fmt.Sprintf("%dms", us/1000)
	}
	return fmt.Sprintf("%.1fs", float64(us)/1e6)
}
