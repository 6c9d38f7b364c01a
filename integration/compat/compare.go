package compat

import "strings"

// Difference is a test that passes at the bare server and not through the proxy.
type Difference struct {
	Target, File string
	Outcome      // through the proxy
}

// Key names the test in the list of exceptions.
func (d Difference) Key() Key { return Key{d.Target, d.File, d.Name} }

// Compare lists what passes in bare and in none of the runs through the proxy, and what
// needed more than one of them.
func Compare(target, file string, bare Record, through ...Record) (differ, unsteady []Difference) {
	for _, want := range bare.Outcomes {
		if want.Status != OK {
			continue
		}
		last, fails := Outcome{}, 0
		for _, r := range through {
			if got := r.outcome(want.Name); got.Status != OK {
				last = got
				fails++
			}
		}
		switch d := (Difference{target, file, last}); {
		case fails == len(through):
			differ = append(differ, d)
		case fails > 0:
			unsteady = append(unsteady, d)
		}
	}
	return differ, unsteady
}

// outcome is what became of a test.
func (r *Record) outcome(name string) Outcome {
	for _, o := range r.Outcomes {
		if o.Name == name && o.Status != Skipped {
			return o
		}
	}
	return Outcome{name, Missing, r.why()}
}

// why is what the suite says outside of its tests: the reason why some never ran.
func (r *Record) why() string {
	var all []string
	if r.Broken != "" {
		all = append(all, r.Broken)
	}
	for _, o := range r.Outcomes {
		if o.Status == Failed && strings.HasPrefix(o.Name, "(outside a test)") {
			all = append(all, o.Detail)
		}
	}
	return strings.Join(all, "\n")
}
