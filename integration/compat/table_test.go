package compat

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// row is what came of one file on one target.
type row struct {
	target, file     string
	bare, through    record
	differ, unsteady []difference
	took             time.Duration
}

// table prints rows as they come, and sums them up. It is safe for concurrent use.
type table struct {
	mu   sync.Mutex
	w    io.Writer
	rows []row
}

// newTable makes a table that prints to w, and prints what its columns are.
func newTable(w io.Writer) *table {
	const head, titles = "%-8s %-34s %23s %23s\n", "      ok    err skipped"
	fmt.Fprintf(w, head, "", "", "straight to Redis", "through the proxy")
	fmt.Fprintf(w, head, "target", "file", titles, titles)
	return &table{w: w}
}

// row prints a row, unless nothing of its file runs.
func (t *table) row(r row) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.rows = append(t.rows, r)
	if r.bare.tests()+r.through.tests() > 0 {
		t.print(r.target, r.file, r)
	}
}

func (t *table) print(target, file string, rows ...row) {
	var sums [6]int
	var took time.Duration
	for _, r := range rows {
		for i, side := range []record{r.bare, r.through} {
			sums[3*i] += side.count(passed)
			sums[3*i+1] += side.count(failed, stalled)
			sums[3*i+2] += side.count(skipped)
		}
		took += r.took
	}
	fmt.Fprintf(t.w, "%-8s %-34s %8d %6d %7d %8d %6d %7d  %5.0f s\n", target, file, sums[0], sums[1], sums[2],
		sums[3], sums[4], sums[5], took.Seconds())
}

// foot prints the totals of each target, what passes only at the bare server and what
// needed a second run. It returns what is no exception, and the exceptions that are not
// needed any more.
func (t *table) foot(exceptions exceptions) (left []difference, stale []testKey) {
	byTarget, ran := map[string][]row{}, map[testKey]bool{}
	var differ, unsteady []difference
	for _, r := range t.rows {
		byTarget[r.target] = append(byTarget[r.target], r)
		ran[testKey{r.target, r.file, "*"}] = true
		for _, o := range r.bare.outcomes {
			if o.status == passed {
				ran[testKey{r.target, r.file, o.name}] = true
			}
		}
		differ, unsteady = append(differ, r.differ...), append(unsteady, r.unsteady...)
	}
	for _, name := range slices.Sorted(maps.Keys(byTarget)) {
		t.print(name, "total", byTarget[name]...)
	}
	left, stale = exceptions.left(differ, ran)
	t.list("passes straight, fails through the proxy", left)
	t.list("passed only in a second run through the proxy", unsteady)
	fmt.Fprintf(t.w, "\n%d tests fail through the proxy alone; %d more are listed as exceptions\n", len(left),
		len(differ)-len(left))
	return left, stale
}

func (t *table) list(title string, all []difference) {
	if len(all) == 0 {
		return
	}
	slices.SortStableFunc(all, func(a, b difference) int {
		return strings.Compare(a.target+" "+a.file, b.target+" "+b.file)
	})
	fmt.Fprintf(t.w, "\n%s:\n", title)
	said := ""
	for _, d := range all {
		fmt.Fprintf(t.w, "  %s %s: %s (%s)\n", d.target, d.file, d.name, d.status)
		if why := d.file + d.detail; why != said { // what ends a file early is told once
			said = why
			lines := strings.Split(d.detail, "\n")
			for _, line := range lines[:min(len(lines), 6)] {
				fmt.Fprintf(t.w, "      %.200s\n", line)
			}
		}
	}
}

func TestTable(t *testing.T) {
	var b bytes.Buffer
	table := newTable(&b)
	bare := recorded(t, "a", passed, "b", passed, "c", skipped)
	through := recorded(t, "a", passed, "b", stalled, "c", skipped)
	differ, _ := compare("single", "unit/x", bare, through)
	table.row(row{target: "single", file: "unit/x", bare: bare, through: through, differ: differ})
	table.row(row{target: "single", file: "unit/nothing"})
	table.row(row{target: "single", file: "unit/y", bare: bare, through: bare})
	left, stale := table.foot(exceptions{{"single", "unit/y", "a"}: "not needed"})
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
