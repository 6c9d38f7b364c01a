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
		b.addCounts(fmt.Sprint("other", i), Count{Grants: 1})
		b.addCounts("job", Count{Grants: uint64(i % 2), Refusals: uint64(1 - i%2)})
	}
	b.addCounts("job", Count{Waits: 1})
	b.addCounts(strings.Repeat("x", maxBusiestName+1), Count{Grants: 1})
	if got := b.Top(2); len(got) != 2 || got[0] != (Count{"job", 500, 500, 1}) || got[1].sum() != 1 {
		t.Errorf("%+v", got)
	}
	names := fmt.Sprint(b.Top(1000))
	if n := len(b.Top(1000)); n != 100 || strings.Contains(names, "other999") {
		t.Errorf("%d names, or one that was used once has pushed out another: %s", n, names)
	}
	once := strings.Repeat("x", 200) // each part of it is another name
	if n := testing.AllocsPerRun(100, func() {
		b.addCounts(once, Count{Grants: 1})
		once = once[1:]
	}); n > 0 {
		t.Errorf("a name that is used once costs %v objects", n)
	}
	b.addCounts("waits", Count{Waits: 1})
	b.addCounts("waits", Count{Grants: 1})
	if names := fmt.Sprint(b.Top(1000)); strings.Contains(names, "waits") {
		t.Errorf("a name that was used once, and waited, is counted: %s", names)
	}
	b.addCounts("new", Count{Grants: 1})
	b.addCounts("new", Count{Grants: 1})
	if names := fmt.Sprint(b.Top(1000)); !strings.Contains(names, "new") {
		t.Errorf("a name that was used twice is not counted: %s", names)
	}
	b = NewBusiest(0)
	b.addCounts("job", Count{Grants: 1})
	b.addCounts("job", Count{Waits: 1})
	if got := b.Top(10); got != nil {
		t.Errorf("switched off: %v", got)
	}
}
