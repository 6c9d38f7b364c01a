// Package dev has the Redis of --dev: in this process, for the first minute with lockproxy.
package dev

import (
	"time"

	"github.com/alicebob/miniredis/v2"
)

// devTick is how often the TTLs of the Redis of --dev are brought up to date.
const devTick = 10 * time.Millisecond

// Miniredis is a Redis on a loopback port of its own, with TTLs that run with the clock.
type Miniredis struct {
	*miniredis.Miniredis
	over, done chan struct{}
}

func Start() (*Miniredis, error) {
	d := &Miniredis{miniredis.NewMiniRedis(), make(chan struct{}), make(chan struct{})}
	if err := d.StartAddr("127.0.0.1:0"); err != nil {
		return nil, err
	}
	if err := tellAll(d.Miniredis); err != nil {
		d.Miniredis.Close()
		return nil, err
	}
	go d.age() // ends in Close
	return d, nil
}

// age makes TTLs run. miniredis could do so itself (ClockTTL), but would look at every key in every command.
// age looks at every key too, but less often if there are many, so that it takes a tenth of the time at
// most. A single look that takes long may have waited for a script, so the next one decides.
func (d *Miniredis) age() {
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
		last, pause = now, max(devTick, 10*min(before, took))
	}
}

// Close ends it.
func (d *Miniredis) Close() {
	close(d.over)
	<-d.done
	d.Miniredis.Close()
}
