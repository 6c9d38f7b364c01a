package connection

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"lockproxy/commands"
)

// A client that tracks many prefixes may add to them as fast as one that tracks none: most of them are not
// looked at.
func TestManyPrefixes(t *testing.T) {
	var many commands.Tracking
	many.On, many.BCast = true, true
	for i := range 1000 {
		many.Prefixes = append(many.Prefixes, strconv.Itoa(1000+i)+":")
	}
	next := commands.Tracking{BCast: true}
	disordered := many
	disordered.Prefixes = slices.Clone(many.Prefixes)
	disordered.Prefixes[5] = "2:" // who looked at all of them would find it here
	if old, ok := overlapping(&disordered, "2:"); ok {
		t.Errorf("%q was found by a search of all", old)
	}
	for prefix, old := range map[string]string{
		"2": "", "1000": "1000:", "1500:x": "1500:", "19": "1900:",
	} {
		got := refuses(&many, &next, []string{prefix})
		if (got == "") != (old == "") || !strings.Contains(got, old) {
			t.Errorf("%s: %q, want it to overlap with %q", prefix, got, old)
		}
	}
}
