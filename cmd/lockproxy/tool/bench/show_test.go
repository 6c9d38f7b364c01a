package bench

import (
	"testing"
	"time"
)

func TestPassed(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct {
		done, length time.Duration
		want         string
	}{
		{201 * ms, 750 * ms, "200ms of 750ms"}, {801 * ms, 750 * ms, "750ms of 750ms"},
		{1199 * ms, 1500 * ms, "1.2s of 1.5s"}, {1600 * ms, 15 * time.Second, "2s of 15s"},
		{90400 * ms, 5 * time.Minute, "1m30s of 5m"},
	} {
		if got := passed(c.done, c.length); got != c.want {
			t.Errorf("%v of %v: %s, want %s", c.done, c.length, got, c.want)
		}
	}
}
