package compat

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// Row is what came of one file on one target.
type Row struct {
	Target, File     string
	Bare, Through    Record
	Differ, Unsteady []Difference
	Took             time.Duration
}

// Table prints rows as they come, and sums them up. It is safe for concurrent use.
type Table struct {
	mu   sync.Mutex
	w    io.Writer
	rows []Row
}

// NewTable makes a table that prints to w, and prints what its columns are.
func NewTable(w io.Writer) *Table {
	const head, titles = "%-8s %-34s %23s %23s\n", "      ok    err skipped"
	fmt.Fprintf(w, head, "", "", "straight to Redis", "through the proxy")
	fmt.Fprintf(w, head, "target", "file", titles, titles)
	return &Table{w: w}
}

// Row prints a row, unless nothing of its file runs.
func (t *Table) Row(r Row) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.rows = append(t.rows, r)
	if r.Bare.Tests()+r.Through.Tests() > 0 {
		t.print(r.Target, r.File, r)
	}
}

func (t *Table) print(target, file string, rows ...Row) {
	var sums [6]int
	var took time.Duration
	for _, r := range rows {
		for i, side := range []Record{r.Bare, r.Through} {
			sums[3*i] += side.Count(OK)
			sums[3*i+1] += side.Count(Failed, Stalled)
			sums[3*i+2] += side.Count(Skipped)
		}
		took += r.Took
	}
	fmt.Fprintf(t.w, "%-8s %-34s %8d %6d %7d %8d %6d %7d  %5.0f s\n", target, file, sums[0], sums[1], sums[2],
		sums[3], sums[4], sums[5], took.Seconds())
}

// Foot prints the totals of each target, what passes only at the bare server and what
// needed a second run. It returns what is no exception, and the exceptions that are not
// needed any more.
func (t *Table) Foot(exceptions Exceptions) (left []Difference, stale []Key) {
	byTarget, ran := map[string][]Row{}, map[Key]bool{}
	var differ, unsteady []Difference
	for _, r := range t.rows {
		byTarget[r.Target] = append(byTarget[r.Target], r)
		ran[Key{r.Target, r.File, "*"}] = true
		for _, o := range r.Bare.Outcomes {
			if o.Status == OK {
				ran[Key{r.Target, r.File, o.Name}] = true
			}
		}
		differ, unsteady = append(differ, r.Differ...), append(unsteady, r.Unsteady...)
	}
	for _, name := range slices.Sorted(maps.Keys(byTarget)) {
		t.print(name, "total", byTarget[name]...)
	}
	left, stale = exceptions.Left(differ, ran)
	t.list("passes straight, fails through the proxy", left)
	t.list("passed only in a second run through the proxy", unsteady)
	fmt.Fprintf(t.w, "\n%d tests fail through the proxy alone; %d more are listed as exceptions\n", len(left),
		len(differ)-len(left))
	return left, stale
}

func (t *Table) list(title string, all []Difference) {
	if len(all) == 0 {
		return
	}
	slices.SortStableFunc(all, func(a, b Difference) int {
		return strings.Compare(a.Target+" "+a.File, b.Target+" "+b.File)
	})
	fmt.Fprintf(t.w, "\n%s:\n", title)
	said := ""
	for _, d := range all {
		fmt.Fprintf(t.w, "  %s %s: %s (%s)\n", d.Target, d.File, d.Name, d.Status)
		if why := d.File + d.Detail; why != said { // what ends a file early is told once
			said = why
			lines := strings.Split(d.Detail, "\n")
			for _, line := range lines[:min(len(lines), 6)] {
				fmt.Fprintf(t.w, "      %.200s\n", line)
			}
		}
	}
}
