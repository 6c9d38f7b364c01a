package main

import (
	"fmt"
	"math"
	"slices"
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
	return median(r.each(what, who, figure))
}

// spread is a figure over the rounds.
func (r results) spread(what, who string, figure func(sample) float64) *spread {
	return spreadOf(r.each(what, who, figure)...)
}

func (r results) each(what, who string, figure func(sample) float64) (all []float64) {
	for _, s := range r[what][who] {
		all = append(all, figure(s))
	}
	return all
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
	return median(r.ratios(what, a, what, b, figure))
}

// versus are the same ratios.
func (r results) versus(what, a, b string, figure func(sample) float64) *spread {
	return spreadOf(r.ratios(what, a, what, b, figure)...)
}

// ratios are round by round those of a in one measurement and b in another.
func (r results) ratios(what, a, other, b string, figure func(sample) float64) (all []float64) {
	for i := range min(len(r[what][a]), len(r[other][b])) {
		all = append(all, figure(r[what][a][i])/figure(r[other][b][i]))
	}
	return all
}

// against are cells: the ratios of a proxy's figure to those of others, where both were measured.
func (r results) against(what string, c contender, others []contender,
	figure func(sample) float64) (cells []string) {
	for _, other := range others {
		cell := ""
		if c.pid != 0 && len(r[what][other.name]) > 0 {
			cell = fmt.Sprintf("%.2f", r.ratio(what, c.name, other.name, figure))
		}
		cells = append(cells, cell)
	}
	return cells
}

// rotated is the order of the i-th round: each is first in its turn.
func rotated[T any](all []T, i int) []T {
	i %= len(all)
	return append(slices.Clone(all[i:]), all[:i]...)
}
