package compat

import "strings"

// Difference is a test that passes at the bare server and not through the proxy.
type Difference struct {
	Target, File string
	Outcome      // through the proxy
}

// Compare lists what passes in bare and in none of the runs through the proxy, and what
// needed more than one of them.
func Compare(target, file string, bare Record, through ...Record) (differ, unsteady []Difference) {
	for _, want := range bare.Outcomes {
		last, fails := Outcome{}, 0
		for _, r := range through {
			if got := r.outcome(want.Name); got.Status != OK {
				last = got
				fails++
			}
		}
		switch d := (Difference{target, file, last}); {
		case want.Status != OK || fails == 0:
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
func (r *Record) outcome(name string) Outcome {
	why := r.Broken
	for _, o := range r.Outcomes {
		if o.Name == name && o.Status != Skipped {
			return o
		}
		if o.Status == Failed && strings.HasPrefix(o.Name, outside) {
			why += "\n" + o.Detail
		}
	}
	return Outcome{name, Missing, strings.TrimSpace(why)}
}
