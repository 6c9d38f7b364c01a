//go:build !quick

package main

import (
	"slices"
	"strings"
	"testing"
)

// Each section runs once, briefly, with whatever yardsticks are installed.
func TestSections(t *testing.T) {
	o, err := parse([]string{"-rounds", "1", "-requests", "2000", "-most", "300"})
	if err != nil {
		t.Fatal(err)
	}
	y := &yard{}
	defer y.close()
	if err := y.open(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	for _, s := range sections {
		if !slices.Contains([]string{"connections", "churn", "paced", "memory", "go", "lock", "handover",
			"scripts"},
			s.name) {
			continue
		}
		t.Run(s.name, func(t *testing.T) {
			rep := report{Section: s.name}
			if err := s.measure(t.Context(), y, o, &rep); err != nil {
				t.Fatal(err)
			}
			if !strings.HasPrefix(rep.Text, "\n## ") || len(rep.Targets) == 0 {
				t.Errorf("%d targets; text:\n%s", len(rep.Targets), rep.Text)
			}
			for _, v := range rep.Targets {
				// What needs a yardstick is not measured where there is none.
				if v.Got == nil && !strings.Contains(v.What, "against") && !strings.Contains(v.What,
					"drain") {
					t.Errorf("%s: not measured", v.What)
				}
			}
		})
	}
}
