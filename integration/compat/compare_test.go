package compat

import (
	"bytes"
	"fmt"
	"reflect"
	"strings"
	"testing"
)

func record(t *testing.T, statuses ...any) (r Record) {
	t.Helper()
	for i := 0; i < len(statuses); i += 2 {
		r.Outcomes = append(r.Outcomes, Outcome{statuses[i].(string), statuses[i+1].(Status), "because"})
	}
	return r
}

func TestCompare(t *testing.T) {
	bare := record(t, "a", OK, "b", OK, "b #2", OK, "c", OK, "d", Failed, "e", Skipped)
	first := record(t, "a", OK, "b", Failed, "b #2", OK, "d", Failed, "f", Failed, "(outside a test)", Failed)
	names := func(all []Difference) string {
		var names []string
		for _, d := range all {
			names = append(names,
				fmt.Sprintf("%s %s %s %s: %s", d.Target, d.File, d.Name, d.Status, d.Detail))
		}
		return strings.Join(names, ", ")
	}
	differ, unsteady := Compare("single", "x", bare, first)
	if got, want := names(differ), "single x b err: because, single x c missing: because"; got != want ||
		unsteady != nil {
		t.Errorf("got %s and %s, want %s", got, names(unsteady), want)
	}
	second := record(t, "a", Failed, "b", OK, "b #2", OK, "c", Stalled)
	differ, unsteady = Compare("single", "x", bare, first, second)
	if got, want := names(differ)+"; "+
		names(unsteady),
		"single x c hang: because; single x a err: because, single x b err: because"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestExceptions(t *testing.T) {
	e, err := parseExceptions("# a comment\n\nsingle\tx\ta # of \"it\"\tno proxy could\ncluster\ty\t*\tall " +
		"of them\nsingle\tz\ta\tas well\n")
	if err != nil || len(e) != 3 {
		t.Fatalf("%v %v", e, err)
	}
	differ := []Difference{
		{"single", "x", Outcome{Name: `a # of "it"`}},
		{"single", "x", Outcome{Name: "b"}},
		{"cluster", "y", Outcome{Name: "a"}},
		{"cluster", "y", Outcome{Name: "b"}},
	}
	ran := map[Key]bool{{"single", "x", `a # of "it"`}: true, {"cluster", "y", "*"}: true}
	left, stale := e.Left(differ, ran)
	if !reflect.DeepEqual(left, differ[1:2]) || len(stale) != 0 {
		t.Errorf("left %v, stale %v", left, stale)
	}
	left, stale = e.Left(differ[1:2], ran)
	if want := []Key{{"cluster", "y", "*"}, {"single", "x", `a # of "it"`}}; len(left) != 1 ||
		!reflect.DeepEqual(stale, want) {
		t.Errorf("left %v, stale %v, want %v", left, stale, want)
	}
	for _, wrong := range []string{"single x a why", "single\tx\ta", "single\tx\ta\t", "single\tx\ta\tb\tc",
		"single\tx\ta\tb\nsingle\tx\ta\tc"} {
		if e, err := parseExceptions(wrong); err == nil {
			t.Errorf("%q gives %v", wrong, e)
		}
	}
	for _, server := range []string{"redis7", "redis8", "valkey8", "valkey9"} {
		if _, err := Listed(server); err != nil {
			t.Error(err)
		}
	}
}

func TestTable(t *testing.T) {
	var b bytes.Buffer
	table := NewTable(&b)
	bare, through := record(t, "a", OK, "b", OK, "c", Skipped), record(t, "a", OK, "b", Stalled, "c", Skipped)
	differ, _ := Compare("single", "unit/x", bare, through)
	table.Row(Row{Target: "single", File: "unit/x", Bare: bare, Through: through, Differ: differ})
	table.Row(Row{Target: "single", File: "unit/nothing"})
	table.Row(Row{Target: "single", File: "unit/y", Bare: bare, Through: bare})
	left, stale := table.Foot(Exceptions{{"single", "unit/y", "a"}: "not needed"})
	if len(left) != 1 || len(stale) != 1 {
		t.Errorf("left %v, stale %v", left, stale)
	}
	for _, want := range []string{
		"single   unit/x                                    2      0       1        1      1       1",
		"single   total                                     4      0       2        3      1       2",
		"single unit/x: b (hang)\n      because\n",
		"1 tests fail through the proxy alone; 0 more",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
	if strings.Contains(b.String(), "nothing") {
		t.Errorf("a file without tests has a row:\n%s", b.String())
	}
}
