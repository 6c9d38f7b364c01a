//go:build limits

package faults

import (
	"testing"
	"time"
)

// The traces of TestTraces and TestRedlockTraces are in order and on time as well.
func TestLimitTracesOnTime(t *testing.T) {
	*traceTime = max(*traceTime, 20*time.Second)
	t.Run("cluster", func(t *testing.T) {
		tr := startTraceRig(t)
		tr.timeless = false
		takeTraces(t, 1, tr.faults(), tr.round)
	})
	t.Run("RedLock", func(t *testing.T) {
		q := startQuorumRig(t, 5, quickTimeout)
		q.timeless = false
		takeTraces(t, 4, q.faults(), q.round)
	})
}
