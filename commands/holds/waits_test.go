package holds

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// Of thousands of waits of one client few are about to end at a time, at the pace of Redis, so that others
// are served between them; at the end of the process all of them end at once.
func TestWaitsEndInPortions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const many = 20_000
		why := errors.New("over")
		begin := func() (w Waits, ending func() []*Wait) {
			room := &Room{Most: 10 * many}
			all := make([]*Wait, many)
			for i := range all {
				var err error
				if all[i], err = w.Begin(room, fmt.Sprint("job", i), "t", 0); err != nil {
					t.Fatal(err)
				}
			}
			return w, func() (told []*Wait) { // those that are told to end, since the last call
				for i, one := range all {
					if one != nil && one.Context().Err() != nil {
						told, all[i] = append(told, one), nil
					}
				}
				return told
			}
		}
		w, ending := begin()
		w.Close(why)
		var open []*Wait // told to end, and not over
		for left := many; left > 0; {
			time.Sleep(endPause)
			synctest.Wait()
			told := ending()
			open, left = append(open, told...), left-len(told)
			if len(told) == 0 || len(open) > endAtOnce {
				t.Fatalf("%d waits more are told to end, %d of them are about to", len(told), len(open))
			}
			time.Sleep(time.Minute) // as long as Redis is away
			synctest.Wait()
			if told = ending(); len(told) > min(endAtOnce-len(open), left) {
				t.Fatalf("%d waits are told to end while %d are about to", len(told), len(open))
			}
			open, left = append(open, told...), left-len(told)
			for _, one := range open[len(open)/4:] {
				one.End()
			}
			open = open[:len(open)/4]
		}
		w, ending = begin()
		w.Drain(why)
		if n := len(ending()); n != many {
			t.Errorf("%d of %d have ended with the process", n, many)
		}
	})
}
