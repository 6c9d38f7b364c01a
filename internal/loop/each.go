package loop

import "sync/atomic"

// Each has f run for each of all, on its loop, and then then once, on the loop that was last. A loop that has
// ended has nothing to run. then runs on whichever loop decides it; if the last one has ended, on the
// caller's goroutine. With no loops it never runs.
func Each[L interface{ Post(f func()) bool }](all []L, f func(L), then func()) {
	var missing atomic.Int64
	missing.Store(int64(len(all)))
	done := func() {
		if missing.Add(-1) == 0 {
			then()
		}
	}
	for _, one := range all {
		if !one.Post(func() { f(one); done() }) {
			done()
		}
	}
}
