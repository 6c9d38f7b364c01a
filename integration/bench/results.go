package main

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"lockproxy/integration/page"
)

// sample is one measurement of one way: what could be measured of it.
type sample map[figure]float64

// figure is one thing that can be measured. Times are in µs.
type figure string

const (
	rate      figure = "rate" // a second
	p50       figure = "p50"  // from a batch being sent to its last reply, or of what else takes time
	p99       figure = "p99"
	p999      figure = "p99.9"
	cpu       figure = "cpu"          // of the proxy, a request
	clientCPU figure = "client"       // of this program, a request
	redisCPU  figure = "redis"        // of Redis, a request
	perCPU    figure = "a CPU second" // requests for one of the client and of the proxy, if there is one
)

// ran is how many commands of that name Redis ran for one request, and usecOf what one took by its account.
func ran(name string) figure    { return figure("ran " + name) }
func usecOf(name string) figure { return figure("µs of " + name) }

// part is what so many percent took at most.
func part(percent float64) figure { return figure(fmt.Sprintf("p%v", percent)) }

// percents are the parts that are kept.
var percents = []float64{0, 5, 10, 25, 50, 75, 90, 95, 99, 99.9, 100}

// timesOf is a sample of how long each of many took.
func timesOf(took []time.Duration, rated float64) sample {
	slices.Sort(took)
	s := sample{rate: rated}
	for _, p := range percents {
		s[part(p)] = micro(took[min(int(float64(len(took))*p/100), len(took)-1)])
	}
	return s
}

func micro(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// results are the samples of a section, one a round, by what was measured and
// for whom.
type results map[string]map[string][]sample

func (r results) add(what, who string, s sample) {
	if r[what] == nil {
		r[what] = map[string][]sample{}
	}
	r[what][who] = append(r[what][who], s)
}

// rounds has all ways do everything that is to be measured, round by round, another way first each time. A
// way without a sample is left out.
func (y *yard) rounds(r results, ways []way, whats []string, take func(i int, w way) sample) {
	for round := range y.o.rounds {
		for i, what := range whats {
			y.progress("round %d of %d: %s", round+1, y.o.rounds, what)
			for _, w := range rotated(ways, round) {
				if s := take(i, w); s != nil {
					r.add(what, w.name, s)
				}
			}
		}
	}
}

// rotated is the order of the i-th round: each is first in its turn.
func rotated[T any](all []T, i int) []T {
	i %= len(all)
	return append(slices.Clone(all[i:]), all[:i]...)
}

// each is a figure in all rounds in which it was measured.
func (r results) each(what, who string, f figure) (all []float64) {
	for _, s := range r[what][who] {
		if v, ok := s[f]; ok {
			all = append(all, v)
		}
	}
	return all
}

// median is the median of a figure over the rounds; NaN: it was not measured.
func (r results) median(what, who string, f figure) float64 { return page.Median(r.each(what, who, f)) }

// spread is a figure over the rounds.
func (r results) spread(what, who string, f figure) *page.Spread {
	return page.SpreadOf(r.each(what, who, f)...)
}

// ratios are those of a's figure to b's, round by round.
func (r results) ratios(what, a, b string, f figure) (all []float64) {
	for i := range min(len(r[what][a]), len(r[what][b])) {
		mine, ok := r[what][a][i][f]
		theirs, both := r[what][b][i][f]
		if ok && both {
			all = append(all, mine/theirs)
		}
	}
	return all
}

// versus are the same ratios.
func (r results) versus(what, a, b string, f figure) *page.Spread {
	return page.SpreadOf(r.ratios(what, a, b, f)...)
}

// column is one of a table: the median of a figure, or of its ratios to another's.
type column struct {
	head, format string
	of           figure
	by           string                  // of whom
	pick         func([]float64) float64 // instead of the median
}

// whole, tenths and hundredths are columns of a figure; without one of that which has the name of the head.
func whole(head string, of ...figure) column      { return columnOf("%.0f", head, of) }
func tenths(head string, of ...figure) column     { return columnOf("%.1f", head, of) }
func hundredths(head string, of ...figure) column { return columnOf("%.2f", head, of) }

func columnOf(format, head string, of []figure) column {
	return column{head: head, format: format, of: append(of, figure(head))[0]}
}

// ofBase is a column of ratios to the one whom each way is compared with.
func ofBase(name string, of figure) column {
	return column{head: "of " + name, format: "%.2f", of: of, by: "base"}
}

// usual are the columns of most tables: what is done in a second, what that is of another's, latencies, and
// what it costs the proxy.
func usual(done, base, each string) []column {
	return []column{whole(done+"/s", rate), ofBase(base, rate), tenths("p50 µs", p50), tenths("p99 µs", p99),
		hundredths("CPU µs a "+each, cpu)}
}

// table has a row for each way in each measurement.
func (r results) table(whats []string, ways []way, columns ...column) string {
	t := page.Table{{""}}
	for _, c := range columns {
		t[0] = append(t[0], c.head)
	}
	for _, what := range whats {
		for _, w := range ways {
			if len(r[what][w.name]) == 0 {
				continue
			}
			row := []string{what + ", " + w.name}
			if len(whats) == 1 {
				row[0] = w.name
			}
			for _, c := range columns {
				row = append(row, r.cell(what, w, c))
			}
			t = append(t, row)
		}
	}
	return t.String()
}

func (r results) cell(what string, w way, c column) string {
	all := r.each(what, w.name, c.of)
	switch c.by {
	case "":
	case "base":
		all = r.ratios(what, w.name, cmp.Or(w.base, "direct"), c.of)
	default:
		all = r.ratios(what, w.name, c.by, c.of)
	}
	if len(all) == 0 {
		return ""
	}
	if c.pick == nil {
		c.pick = page.Median
	}
	return fmt.Sprintf(c.format, c.pick(all))
}

// beside are these columns, and the ratios of the proxy's CPU to those of the yardsticks.
func (y *yard) beside(all ...column) []column {
	for _, w := range y.yardsticks() {
		all = append(all, column{head: "of " + w.name, format: "%.2f", of: cpu, by: w.name})
	}
	return all
}

// draw adds a plot of a figure: over numbers, or as bars of which each measurement is a group.
func (rep *report) draw(p page.Plot, r results, whats []string, over []int, ways []way, f figure) {
	for _, w := range ways {
		l := page.Line{Name: w.name}
		for i, what := range whats {
			x := float64(i)
			if over != nil {
				x = float64(over[i])
			}
			l.Add(x, r.median(what, w.name, f))
		}
		if l.Points != nil {
			p.Lines = append(p.Lines, l)
		}
	}
	p.LogX = over != nil
	rep.Plots = append(rep.Plots, p)
}
