package cluster

import (
	"strings"
	"testing"
)

// A node has nothing to do for a connection if each field says so; whatever it reads, runs, holds back or
// writes, it has.
func TestSettled(t *testing.T) {
	const idle = "id=7 addr=1:2 name=lockproxy age=9 flags=N qbuf=0 argv-mem=0 obl=0 oll=0"
	for change, want := range map[string]bool{
		"":                           true,
		"flags=N flags=x":            true, // between MULTI and EXEC
		"flags=N flags=b":            false,
		"flags=N flags=xu":           false,
		"flags=N ":                   false,
		"qbuf=0 qbuf=1":              false,
		"argv-mem=0 argv-mem=5":      false,
		"obl=0 obl=5":                false,
		"oll=0 oll=1":                false,
		"name=lockproxy name=":       false,
		"name=lockproxy name=worker": false,
	} {
		before, after, _ := strings.Cut(change, " ")
		line, fields := strings.Replace(idle, before, after, 1), map[string]string{}
		for field := range strings.FieldsSeq(line) {
			name, value, _ := strings.Cut(field, "=")
			fields[name] = value
		}
		if got := settled(fields); got != want {
			t.Errorf("%s: %v", line, got)
		}
	}
}
