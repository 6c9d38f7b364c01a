package page

import (
	"fmt"
	"math"
	"slices"
	"strconv"
)

// Spread is a figure of several rounds.
type Spread struct {
	Median float64 `json:"median"`
	Low    float64 `json:"low"`
	High   float64 `json:"high"`
}

// SpreadOf leaves out what could not be measured; nil: nothing could.
func SpreadOf(all ...float64) *Spread {
	var good []float64
	for _, f := range all {
		if !math.IsNaN(f) && !math.IsInf(f, 0) {
			good = append(good, f)
		}
	}
	if good == nil {
		return nil
	}
	s := &Spread{Median(good), good[0], good[0]}
	for _, f := range good {
		s.Low, s.High = min(s.Low, f), max(s.High, f)
	}
	return s
}

// Median is the middle one, or the mean of the two; NaN of nothing.
func Median(all []float64) float64 {
	if len(all) == 0 {
		return math.NaN()
	}
	all = slices.Sorted(slices.Values(all))
	return (all[(len(all)-1)/2] + all[len(all)/2]) / 2
}

// Verdict is one line of the targets: a ratio or a figure, and its limit.
type Verdict struct {
	What   string  `json:"what"`
	Got    *Spread `json:"got"` // nil: it could not be measured
	Limit  float64 `json:"limit"`
	AtMost bool    `json:"atmost"` // else at least
	Format string  `json:"format"` // of what was got
}

// AtMost is a target that nothing may be above, AtLeast one that nothing may be below.
func AtMost(limit float64, format, what string, got *Spread) Verdict {
	return Verdict{what, got, limit, true, format}
}

func AtLeast(limit float64, format, what string, got *Spread) Verdict {
	return Verdict{what, got, limit, false, format}
}

// Word is whether it is reached.
func (v Verdict) Word() string {
	switch {
	case v.Got == nil:
		return "not measured"
	case v.AtMost && v.Got.Median <= v.Limit || !v.AtMost && v.Got.Median >= v.Limit:
		return "reached"
	}
	return "not reached"
}

// Targets is every target, and whether it is reached.
func Targets(all []Verdict) Table {
	t := Table{{"figure", "target", "reached", "range", ""}}
	for _, v := range all {
		limit := ">= " + strconv.FormatFloat(v.Limit, 'f', -1, 64)
		if v.AtMost {
			limit = "<" + limit[1:]
		}
		row := []string{v.What, limit, "", "", v.Word()}
		if v.Got != nil {
			row[2] = fmt.Sprintf(v.Format, v.Got.Median)
			row[3] = fmt.Sprintf(v.Format+" to "+v.Format, v.Got.Low, v.Got.High)
		}
		t = append(t, row)
	}
	return t
}
