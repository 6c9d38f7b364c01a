// Package dev has the Redis of --dev: in this process, for the first minute with lockproxy.
package dev

import (
	"time"

	"github.com/alicebob/miniredis/v2"
)

// The TTLs of the Redis of --dev are brought up to date each devTick, or each latestTick if that takes long.
// A key loses with the next tick what has passed since the last one, though it may be younger.
const (
	devTick    = 10 * time.Millisecond
	latestTick = 100 * time.Millisecond
)

// Miniredis is a Redis on a loopback port of its own, with TTLs that run with the clock.
type Miniredis struct {
	*miniredis.Miniredis
	// over asks ageKeys to end, done says that it has
	over, done chan struct{}
}

// Start starts one. Its port is a free one that the system chooses. The caller closes it.
func Start() (*Miniredis, error) {
	d := &Miniredis{miniredis.NewMiniRedis(), make(chan struct{}), make(chan struct{})}
	if err := d.StartAddr("127.0.0.1:0"); err != nil {
		return nil, err
	}
	if err := tellAll(d.Miniredis); err != nil {
		d.Miniredis.Close()
		return nil, err
	}
	go d.ageKeys() // ends in Close
	return d, nil
}

// ageKeys makes TTLs run. miniredis could do so itself (ClockTTL), but would look at every key in every
// command. ageKeys looks at every key too, but less often if there are many. A single look that takes long
// may have waited for a script, so the next one decides.
func (d *Miniredis) ageKeys() {
	defer close(d.done)
	last, pause, took := time.Now(), devTick, time.Duration(0)
	for {
		select {
		case <-d.over:
			return
		case <-time.After(pause):
		}
		now := time.Now()
		d.FastForward(now.Sub(last))
		before := took
		took = time.Since(now)
		last, pause = now, pauseAfter(min(before, took))
	}
}

// pauseAfter is the pause behind a look at all keys. Ten times as long as the look: it takes an eleventh of
// the time at most, unless latestTick cuts the pause.
func pauseAfter(took time.Duration) time.Duration { return min(max(devTick, 10*took), latestTick) }

// Close ends it.
func (d *Miniredis) Close() {
	close(d.over)
	<-d.done
	d.Miniredis.Close()
}
