package lock

import (
	"fmt"
	"testing"
	"time"

	"lockproxy/redlock"
)

// However many holds there are, the memory of them is bounded, and none is lost from the counts.
func TestTimesOfManyHolds(t *testing.T) {
	const many = 100_000
	l, now := NewLedger(nil, nil), time.Now()
	for i := range many {
		a := &redlock.Acquire{Name: fmt.Sprint("job", i), Token: "t", Mode: redlock.Write, Keep: i%2 == 0,
			Lease: time.Hour}
		l.granted(a, int64(i), now, now)
	}
	remembered := uint64(0)
	for i := range l.held.sets {
		remembered += uint64(len(l.held.sets[i].all))
	}
	if forgotten := l.Times().Unmeasured; remembered+forgotten != many || remembered > 1<<15 ||
		remembered < 1<<14 {
		t.Errorf("%d holds remembered, %d not", remembered, forgotten)
	}
}

func BenchmarkLedger(b *testing.B) {
	l := NewLedger([]string{"orders:", "users:", "mail:"}, nil)
	a := &redlock.Acquire{Name: "job:of:42", Token: "token-of-a-client", Mode: redlock.Write,
		Lease: time.Hour}
	b.ReportAllocs()
	for i := range b.N {
		now := time.Now()
		l.granted(a, int64(i), now, now)
		l.released(a.Name, a.Token, nil)
	}
}
