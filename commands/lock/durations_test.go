package lock

import (
	"testing"
	"time"
)

// The sum of durations is right for as long as anybody could hold locks.
func TestSumOfDurations(t *testing.T) {
	var d durations
	const n, year = 1000, 365 * 24 * time.Hour
	for range n {
		d.countDuration(year)
	}
	want := (n * year.Hours()) * 3600
	if all := d.appendCounted(nil, "lock", "", "released"); len(all) != 1 || all[0].Sum != want {
		t.Errorf("%+v, want %v s", all, want)
	}
}
