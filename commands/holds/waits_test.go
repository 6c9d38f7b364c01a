package holds

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// Thousands of waits of one client end in portions, so that others are served between them; at the end of the
// process all of them end at once.
func TestWaitsEndInPortions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const many = 20_000
		why := errors.New("over")
		begin := func() (w Waits, ended func() int) {
			room := &Room{Most: 10 * many}
			all := make([]*Wait, many)
			for i := range all {
				var err error
				if all[i], err = w.Begin(room, fmt.Sprint("job", i), "t", 0); err != nil {
					t.Fatal(err)
				}
			}
			return w, func() (n int) {
				for _, one := range all {
					if one.Context().Err() != nil {
						n++
					}
				}
				return n
			}
		}
		w, ended := begin()
		w.Close(why)
		portions := 0
		for before := 0; before < many; portions++ {
			synctest.Wait()
			now := ended()
			if n := now - before; n < 1 || n > endAtOnce {
				t.Fatalf("%d waits end at once, behind %d", n, before)
			}
			before = now
			time.Sleep(endPause)
		}
		if want := (many + endAtOnce - 1) / endAtOnce; portions != want {
			t.Errorf("%d portions, not %d", portions, want)
		}
		w, ended = begin()
		w.Drain(why)
		if n := ended(); n != many {
			t.Errorf("%d of %d have ended with the process", n, many)
		}
	})
}
