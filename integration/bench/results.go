package main

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// results are the samples of a section, one a round, by what was measured and
// for whom.
type results map[string]map[string][]sample

func (r results) add(what, who string, s sample) {
	if r[what] == nil {
		r[what] = map[string][]sample{}
	}
	r[what][who] = append(r[what][who], s)
}

// The figures of a sample.
func rate(s sample) float64     { return s.rate }
func p50(s sample) float64      { return micro(s.p50) }
func p99(s sample) float64      { return micro(s.p99) }
func cpu(s sample) float64      { return micro(s.cpu) }
func redisCPU(s sample) float64 { return micro(s.redis) }
func account(s sample) float64  { return micro(s.account) }

func micro(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// median is the median of a figure over the rounds.
func (r results) median(what, who string, figure func(sample) float64) float64 {
	var all []float64
	for _, s := range r[what][who] {
		all = append(all, figure(s))
	}
	return median(all)
}

// least is the smallest of a figure over the rounds.
func (r results) least(what, who string, figure func(sample) float64) float64 {
	least := math.NaN()
	for i, s := range r[what][who] {
		if f := figure(s); i == 0 || f < least {
			least = f
		}
	}
	return least
}

// ratio is the median over the rounds of a's figure by b's.
func (r results) ratio(what, a, b string, figure func(sample) float64) float64 {
	var all []float64
	for i, s := range r[what][a] {
		all = append(all, figure(s)/figure(r[what][b][i]))
	}
	return median(all)
}

// median is the middle one, or the mean of the two; NaN of nothing.
func median(all []float64) float64 {
	if len(all) == 0 {
		return math.NaN()
	}
	all = slices.Sorted(slices.Values(all))
	return (all[(len(all)-1)/2] + all[len(all)/2]) / 2
}

// verdict is one line of the targets: a ratio or a figure, and its limit.
type verdict struct {
	what   string
	value  float64
	limit  float64
	atMost bool   // else at least
	format string // of value
}

func (v verdict) word() string {
	if v.atMost && v.value <= v.limit || !v.atMost && v.value >= v.limit {
		return "PASS"
	}
	return "MISS" // NaN too
}

func (v verdict) target() string {
	sign := ">="
	if v.atMost {
		sign = "<="
	}
	return sign + " " + strconv.FormatFloat(v.limit, 'f', -1, 64)
}

func printVerdicts(w io.Writer, all []verdict) {
	if len(all) == 0 {
		return
	}
	t := table{{"target", "wanted", "measured", ""}}
	for _, v := range all {
		t = append(t, []string{v.what, v.target(), fmt.Sprintf(v.format, v.value), v.word()})
	}
	fmt.Fprintf(w, "\n## Targets\n\n%s", t)
}

// table is a markdown table; its first row is the head.
type table [][]string

func (t table) String() string {
	widths := make([]int, len(t[0]))
	for _, row := range t {
		for i, cell := range row {
			widths[i] = max(widths[i], len([]rune(cell)))
		}
	}
	var b strings.Builder
	for i, row := range t {
		for j, cell := range row {
			pad := strings.Repeat(" ", widths[j]-len([]rune(cell)))
			if j == 0 {
				fmt.Fprintf(&b, "| %s%s ", cell, pad)
			} else {
				fmt.Fprintf(&b, "| %s%s ", pad, cell)
			}
		}
		b.WriteString("|\n")
		if i == 0 {
			for j, width := range widths {
				b.WriteString("|" + strings.Repeat("-", width+1))
				if j == 0 {
					b.WriteString("-")
				} else {
					b.WriteString(":") // numbers: to the right
				}
			}
			b.WriteString("|\n")
		}
	}
	return b.String()
}

// rotated is the order of the i-th round: each is first in its turn.
func rotated[T any](all []T, i int) []T {
	i %= len(all)
	return append(slices.Clone(all[i:]), all[:i]...)
}
