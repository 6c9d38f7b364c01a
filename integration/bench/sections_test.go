//go:build !quick

package main

import (
	"slices"
	"strings"
	"testing"

	"lockproxy/integration/rig"
)

func TestMain(m *testing.M) { rig.Main(m) }

// Each section runs once, briefly, with whatever yardsticks are installed, but for those that take long
// however little they do.
func TestSections(t *testing.T) {
	o, err := parse([]string{"-rounds", "1", "-requests", "1000", "-most", "50"})
	if err != nil {
		t.Fatal(err)
	}
	o.requests = 500 // less than anybody would measure
	y := open(t, o)
	for _, s := range sections {
		if slices.Contains([]string{"keepalive", "redlock", "large"}, s.name) {
			continue
		}
		t.Run(s.name, func(t *testing.T) {
			y := *y
			y.Life = t
			rep := report{Section: s.name}
			s.measure(&y, &rep)
			if !strings.HasPrefix(rep.Text, "\n## ") || len(rep.Targets) == 0 && s.name != "pubsub" &&
				s.name != "connections" {
				t.Errorf("%d targets; text:\n%s", len(rep.Targets), rep.Text)
			}
			for _, v := range rep.Targets {
				// What needs a yardstick is not measured where there is none.
				if v.Got == nil && !strings.Contains(v.What, "against") {
					t.Errorf("%s: not measured", v.What)
				}
			}
		})
	}
	used, memory := y.running(), y.masters[0].RSS(t) //house:brief it is measured at all
	if used <= 0 || memory < 1<<20 || memory > 1<<40 {
		t.Errorf("all that runs used %v, a master has %d bytes", used, memory)
	}
}
