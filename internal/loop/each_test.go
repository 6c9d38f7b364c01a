package loop

import (
	"sync/atomic"
	"testing"
)

// What comes behind all loops comes once, also if some of them have ended.
func TestEach(t *testing.T) {
	all := []*Loop{NewPortable(), NewPortable(), NewPortable()}
	for _, l := range all {
		go l.Run()
		defer l.Close()
	}
	all[2].Close()
	var ran atomic.Int64
	done := make(chan struct{})
	Each(all, func(*Loop) { ran.Add(1) }, func() { close(done) })
	if <-done; ran.Load() != 2 {
		t.Errorf("it ran on %d loops", ran.Load())
	}
}
