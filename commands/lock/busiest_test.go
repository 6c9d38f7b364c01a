package lock

import (
	"fmt"
	"strings"
	"testing"
)

// The busiest locks come first, and how many are counted is bounded.
func TestBusiest(t *testing.T) {
	b := NewBusiest(100)
	for i := range 1000 {
		b.countEnd(fmt.Sprint("other", i), true)
		b.countEnd("job", i%2 == 0)
	}
	b.countWait("job")
	b.countEnd(strings.Repeat("x", maxBusiestName+1), true)
	if got := b.Top(2); len(got) != 2 || got[0] != (Count{"job", 500, 500, 1}) || got[1].sum() != 1 {
		t.Errorf("%+v", got)
	}
	if n := len(b.Top(1000)); n != 100 {
		t.Errorf("%d names", n)
	}
	b = NewBusiest(0)
	b.countEnd("job", true)
	b.countWait("job")
	if got := b.Top(10); got != nil {
		t.Errorf("switched off: %v", got)
	}
}
