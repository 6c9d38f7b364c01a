package compat

import (
	"fmt"
	"io"
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

// NewTable makes a table that prints to w.
func NewTable(w io.Writer) *Table { return &Table{w: w} }

const (
	head   = "%-8s %-34s %23s %23s\n"
	line   = "%-8s %-34s %8d %6d %7d %8d %6d %7d  %5.0f s\n"
	titles = "      ok    err skipped"
)

// Head prints what the columns are.
func (t *Table) Head() {
	fmt.Fprintf(t.w, head, "", "", "straight to Redis", "through the proxy")
	fmt.Fprintf(t.w, head, "target", "file", titles, titles)
}

// Row prints a row, unless nothing of its file runs.
func (t *Table) Row(r Row) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.rows = append(t.rows, r)
	if r.Bare.Tests()+r.Through.Tests() > 0 {
		t.print(r.Target, r.File, []Row{r})
	}
}

func (t *Table) print(target, file string, rows []Row) {
	var sums [6]int
	var took time.Duration
	for _, r := range rows {
		for i, side := range []Record{r.Bare, r.Through} {
			sums[3*i] += side.Count(OK)
			sums[3*i+1] += side.Count(Failed) + side.Count(Stalled)
			sums[3*i+2] += side.Count(Skipped)
		}
		took += r.Took
	}
	fmt.Fprintf(t.w, line, target, file, sums[0], sums[1], sums[2], sums[3], sums[4], sums[5], took.Seconds())
}

// Tests is how many tests ran, or should have.
func (r *Record) Tests() int { return r.Count(OK) + r.Count(Failed) + r.Count(Stalled) }

// Foot prints the totals of each target, what passes only at the bare server and what
// needed a second run. It returns what is no exception, and the exceptions that are not
// needed any more.
func (t *Table) Foot(exceptions Exceptions) (left []Difference, stale []Key) {
	t.mu.Lock()
	defer t.mu.Unlock()
	byTarget, names := map[string][]Row{}, []string{}
	ran := map[Key]bool{}
	var differ, unsteady []Difference
	for _, r := range t.rows {
		if byTarget[r.Target] == nil {
			names = append(names, r.Target)
		}
		byTarget[r.Target] = append(byTarget[r.Target], r)
		ran[Key{Target: r.Target, File: r.File, Name: "*"}] = true
		for _, o := range r.Bare.Outcomes {
			key := Key{Target: r.Target, File: r.File, Name: o.Name}
			ran[key] = ran[key] || o.Status == OK
		}
		differ = append(differ, r.Differ...)
		unsteady = append(unsteady, r.Unsteady...)
	}
	slices.Sort(names)
	for _, name := range names {
		t.print(name, "total", byTarget[name])
	}
	left = exceptions.Left(differ)
	stale = exceptions.Stale(differ, func(key Key) bool { return ran[key] })
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
			fmt.Fprint(t.w, indent(d.Detail, 6))
		}
	}
}

// indent is the first lines of a text, each with blanks before it.
func indent(text string, most int) string {
	var b strings.Builder
	for i, line := range strings.Split(text, "\n") {
		if i == most {
			break
		}
		fmt.Fprintf(&b, "      %.200s\n", line)
	}
	return b.String()
}
