package connection

import (
	"strconv"
	"strings"
	"testing"

	"lockproxy/commands"
)

// A client that tracks many prefixes may add to them in no more time than one that tracks none.
func TestManyPrefixes(t *testing.T) {
	var many commands.Tracking
	many.On, many.BCast = true, true
	for i := range 1_000_000 {
		many.Prefixes = append(many.Prefixes, strconv.Itoa(1_000_000+i)+":")
	}
	next := commands.Tracking{BCast: true}
	if steps := testing.Benchmark(func(b *testing.B) {
		for range b.N {
			overlapping(&many, "2:")
		}
	}); steps.NsPerOp() > 100_000 {
		t.Errorf("a prefix takes %v", steps)
	}
	for prefix, old := range map[string]string{
		"2": "", "1000000": "1000000:", "1500000:x": "1500000:", "19": "1900000:",
	} {
		got := refuses(&many, &next, []string{prefix})
		if (got == "") != (old == "") || !strings.Contains(got, old) {
			t.Errorf("%s: %q, want it to overlap with %q", prefix, got, old)
		}
	}
}
