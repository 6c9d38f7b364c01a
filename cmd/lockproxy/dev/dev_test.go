package dev

import (
	"testing"
	"time"
)

// However long a look at all keys takes, no key loses much of its time to live to the pause behind it.
func TestPauseOfTTLs(t *testing.T) {
	for took, want := range map[time.Duration]time.Duration{
		0: devTick, 5 * time.Millisecond: 50 * time.Millisecond, time.Second: latestTick,
	} {
		if got := pauseAfter(took); got != want {
			t.Errorf("a look of %v: a pause of %v, want %v", took, got, want)
		}
	}
}
