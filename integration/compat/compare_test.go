package compat

import (
	"fmt"
	"strings"
	"testing"
)

// difference is a test that passes at the bare server and not through the proxy.
type difference struct {
	target, file string
	outcome      // through the proxy
}

// compare lists what passes in bare and in none of the runs through the proxy, and what
// needed more than one of them.
func compare(target, file string, bare record, through ...record) (differ, unsteady []difference) {
	for _, want := range bare.outcomes {
		last, fails := outcome{}, 0
		for _, r := range through {
			if got := r.outcome(want.name); got.status != passed {
				last = got
				fails++
			}
		}
		switch d := (difference{target, file, last}); {
		case want.status != passed || fails == 0:
		case fails == len(through):
			differ = append(differ, d)
		default:
			unsteady = append(unsteady, d)
		}
	}
	return differ, unsteady
}

// outcome is what became of a test. One that never ran has what the suite says outside of its tests for a
// reason.
func (r *record) outcome(name string) outcome {
	why := r.broken
	for _, o := range r.outcomes {
		if o.name == name && o.status != skipped {
			return o
		}
		if o.status == failed && strings.HasPrefix(o.name, outside) {
			why += "\n" + o.detail
		}
	}
	return outcome{name, missing, strings.TrimSpace(why)}
}

func recorded(t *testing.T, statuses ...any) (r record) {
	t.Helper()
	for i := 0; i < len(statuses); i += 2 {
		r.outcomes = append(r.outcomes, outcome{statuses[i].(string), statuses[i+1].(status), "because"})
	}
	return r
}

func TestCompare(t *testing.T) {
	bare := recorded(t, "a", passed, "b", passed, "b #2", passed, "c", passed, "d", failed, "e", skipped)
	first := recorded(t, "a", passed, "b", failed, "b #2", passed, "d", failed, "f", failed,
		"(outside a test)", failed)
	names := func(all []difference) string {
		var names []string
		for _, d := range all {
			names = append(names,
				fmt.Sprintf("%s %s %s %s: %s", d.target, d.file, d.name, d.status, d.detail))
		}
		return strings.Join(names, ", ")
	}
	differ, unsteady := compare("single", "x", bare, first)
	if got, want := names(differ), "single x b err: because, single x c missing: because"; got != want ||
		unsteady != nil {
		t.Errorf("got %s and %s, want %s", got, names(unsteady), want)
	}
	second := recorded(t, "a", failed, "b", passed, "b #2", passed, "c", stalled)
	differ, unsteady = compare("single", "x", bare, first, second)
	if got, want := names(differ)+"; "+
		names(unsteady),
		"single x c hang: because; single x a err: because, single x b err: because"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
