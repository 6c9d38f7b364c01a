package pipe

import (
	"testing"
	"testing/synctest"
	"time"
)

// looked is a client with one request. It counts how often its order is asked for.
type looked struct {
	keeper
	client int64
	times  int
}

func (o *looked) Order(tag uint32) (client int64, n uint32, latest bool) {
	o.times++
	return o.client, tag, true
}

// TestManyThatWaitLeaveTime proves that requests which wait for a node that is down are looked at more rarely
// the more there are: the loop serves others meanwhile.
func TestManyThatWaitLeaveTime(t *testing.T) {
	times := func(n int) (times int) {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, Options{}, nil)
			all := make([]looked, n)
			r.own(func() {
				for i := range all {
					all[i].client = int64(i + 1)
					r.send(Mode{Proto: 2}, &all[i], 1, true, "GET")
				}
			})
			time.Sleep(2 * time.Second)
			r.on(func() { times = all[n/2].times })
		})
		return times
	}
	few, many := times(10), times(20_000)
	if few < 100 || many > few/2 {
		t.Errorf("one of 10 was looked at %d times in 2 s, one of 20 000 %d times", few, many)
	}
}
