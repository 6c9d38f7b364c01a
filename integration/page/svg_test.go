package page

import (
	"encoding/xml"
	"io"
	"math"
	"slices"
	"strings"
	"testing"
)

func TestMarks(t *testing.T) {
	for _, tt := range []struct {
		s    scale
		want []float64
	}{
		{scale{low: 0, high: 10}, []float64{0, 2.5, 5, 7.5, 10}},
		{scale{low: 0, high: 130000}, []float64{0, 25000, 50000, 75000, 100000, 125000}},
		{scale{low: 1, high: 2, log: true}, []float64{10, 20, 50, 100}},
		{scale{low: 0, high: 6, log: true}, []float64{1, 10, 100, 1000, 10000, 100000, 1000000}},
	} {
		if got := tt.s.marks(); !slices.Equal(got, tt.want) {
			t.Errorf("%+v: %v, want %v", tt.s, got, tt.want)
		}
	}
}

func TestNumber(t *testing.T) {
	for v, want := range map[float64]string{0: "0", math.Copysign(0, -1): "0", -2.5: "-2.5", 1234: "1.234k"} {
		if got := number(v); got != want {
			t.Errorf("%v: %s, want %s", v, got, want)
		}
	}
}

// A plot is well-formed XML in which each number is one, whatever could not be measured.
func TestSVG(t *testing.T) {
	lines := Plot{Title: "a < b & c", X: "x", Y: "y", LogX: true, Lines: []Line{
		{Name: "one", Points: [][2]float64{{50, 40000}, {10000, 20000}}},
		{Name: "two", Points: [][2]float64{{50, 1}}}, {Name: "none"}}}
	lines.Lines[2].Add(50, math.NaN())
	lines.Lines[2].Add(50, math.Inf(1))
	bars := Plot{Bars: []string{"GET", "SET"},
		Lines: []Line{{Name: "one", Points: [][2]float64{{0, 3}, {1, 4}}}}}
	for _, p := range []Plot{lines, bars, {}} {
		text := p.SVG()
		if strings.Contains(text, "NaN") || strings.Contains(text, "Inf") {
			t.Errorf("not a number:\n%s", text)
		}
		d := xml.NewDecoder(strings.NewReader(text))
		var err error
		for err == nil {
			_, err = d.Token()
		}
		if err != io.EOF {
			t.Errorf("%v:\n%s", err, text)
		}
	}
}
