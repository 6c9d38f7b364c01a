package page

import (
	"math"
	"testing"
)

func TestMedian(t *testing.T) {
	for _, tt := range []struct {
		all  []float64
		want float64
	}{
		{[]float64{3}, 3},
		{[]float64{9, 1, 5}, 5},
		{[]float64{4, 1, 2, 9}, 3},
	} {
		if got := Median(tt.all); got != tt.want {
			t.Errorf("%v: %v, want %v", tt.all, got, tt.want)
		}
	}
	if got := Median(nil); !math.IsNaN(got) {
		t.Errorf("of nothing: %v", got)
	}
}

func TestVerdict(t *testing.T) {
	for _, tt := range []struct {
		v                           Verdict
		word, target, value, limits string
	}{
		{AtMost(0.8, "%.2f", "", SpreadOf(0.8, 0.7, 0.9)), "reached", "<= 0.8", "0.80", "0.70 to 0.90"},
		{AtMost(0.8, "%.2f", "", SpreadOf(0.81)), "not reached", "<= 0.8", "0.81", "0.81 to 0.81"},
		{AtLeast(0.85, "%.2f", "", SpreadOf(0.85)), "reached", ">= 0.85", "0.85", "0.85 to 0.85"},
		{AtLeast(0.85, "%.2f", "", SpreadOf(0.84)), "not reached", ">= 0.85", "0.84", "0.84 to 0.84"},
		{AtMost(1, "%.0f", "", SpreadOf(math.NaN(), math.Inf(1))), "not measured", "<= 1", "", ""},
	} {
		want := Table{{"figure", "target", "reached", "range", ""},
			{"", tt.target, tt.value, tt.limits, tt.word}}.String()
		if got := Targets([]Verdict{tt.v}).String(); got != want {
			t.Errorf("got\n%swant\n%s", got, want)
		}
	}
}

func TestTable(t *testing.T) {
	got := Table{{"", "µs"}, {"GET", "1.5"}, {"a", "10"}}.String()
	want := "|     |  µs |\n|-----|----:|\n| GET | 1.5 |\n| a   |  10 |\n"
	if got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}
