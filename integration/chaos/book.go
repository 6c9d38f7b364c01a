package main

import (
	"cmp"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"lockproxy/integration/page"
	"lockproxy/integration/trace"
)

// book are the results, and the files of the page that is made of them:
//
//	docs/resilience.md
//	docs/resilience/results.json
//	docs/resilience/NAME.svg
type book struct {
	page  string // "": none is written
	kept  results
	fresh results // of this run
}

// results are what was seen.
type results struct {
	Rows     []row       `json:"rows"`
	Overload *overload   `json:"overload,omitempty"`
	Soak     *soak       `json:"soak,omitempty"`
	Traces   []trace.Sum `json:"traces,omitempty"`
}

func (b *book) folder() string { return strings.TrimSuffix(b.page, filepath.Ext(b.page)) }

func (b *book) results() string { return filepath.Join(b.folder(), "results.json") }

// load reads what earlier runs have kept.
func (b *book) load() error {
	if b.page == "" {
		return nil
	}
	text, err := os.ReadFile(b.results())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	b.kept = results{}
	return cmp.Or(err, json.Unmarshal(text, &b.kept))
}

// keepThat puts what was seen in its place, and writes the page.
func (b *book) keepThat(put func(*results)) error {
	if err := b.load(); err != nil { // another run may have kept something
		return err
	}
	put(&b.fresh)
	put(&b.kept)
	return b.write()
}

// put puts a row in the place of an older one of the same fault.
func (rs *results) put(r row) {
	rs.Rows = slices.DeleteFunc(rs.Rows, func(old row) bool { return old.Name == r.Name })
	rs.Rows = append(rs.Rows, r)
	names := faultNames()
	slices.SortFunc(rs.Rows, func(a, b row) int {
		return slices.Index(names, a.Name) - slices.Index(names, b.Name)
	})
}

// write writes all files, if there is a page.
func (b *book) write() error {
	if b.page == "" {
		return nil
	}
	if err := os.MkdirAll(b.folder(), 0o755); err != nil {
		return err
	}
	text, err := json.MarshalIndent(b.kept, "", "\t")
	if err != nil {
		return err
	}
	if err := os.WriteFile(b.results(), append(text, '\n'), 0o644); err != nil {
		return err
	}
	return b.print()
}

// print writes what is made of the results.
func (b *book) print() error {
	for _, p := range append(b.kept.plots(), b.kept.Soak.plots()...) {
		if err := os.WriteFile(filepath.Join(b.folder(), p.File+".svg"), []byte(p.SVG()), 0o644); err != nil {
			return err
		}
	}
	return os.WriteFile(b.page, []byte(b.text(b.kept)), 0o644)
}

//go:embed text/head.txt
var head string

// text is the page.
func (b *book) text(rs results) string {
	var w strings.Builder
	if b.page != "" {
		w.WriteString(head)
		if missing := rs.missing(); missing != nil {
			fmt.Fprintf(&w, "\n**Not seen here: %s.**\n", strings.Join(missing, ", "))
		}
	}
	if len(rs.Rows) > 0 {
		fmt.Fprintf(&w, "\n## Faults\n\n%s\n%s%s\n", rs.table(), rs.notes(), sums(rs.Rows))
		if targets := targetsOf(rs.Rows); targets != nil {
			fmt.Fprintf(&w, "\n## Targets\n\n%s", page.Targets(targets))
		}
		fmt.Fprintf(&w, "\n## Errors, in words\n\n%s", rs.errors())
	}
	if b.page != "" {
		for _, p := range rs.plots() {
			fmt.Fprintf(&w, "\n![%s](%s/%s.svg)\n", p.Title, filepath.Base(b.folder()), p.File)
		}
	}
	w.WriteString(rs.Overload.text())
	w.WriteString(rs.Soak.text())
	w.WriteString(traceText(rs.Traces))
	if b.page != "" && len(rs.Rows) > 0 {
		fmt.Fprintf(&w, "\n## When and where\n\n%s", rs.places())
	}
	return w.String()
}

// minute is how times are told.
const minute = "2006-01-02 15:04 UTC"

// table is a page.Table of anything.
type table [][]string

func (t *table) add(cells ...any) {
	var line []string
	for _, c := range cells {
		line = append(line, fmt.Sprint(c))
	}
	*t = append(*t, line)
}

func (t table) String() string { return page.Table(t).String() }

// missing are the faults of which nothing is known.
func (rs results) missing() (names []string) {
	for _, name := range faultNames() {
		if !slices.ContainsFunc(rs.Rows, func(r row) bool { return r.Name == name }) {
			names = append(names, "`"+name+"`")
		}
	}
	return names
}

func (rs results) table() string {
	t := table{{"fault", "clients", "promoted", "goes on", "new", "longest", "errors", "p99 of others",
		"acknowledged", "lost", "doubled", "ran"}}
	for _, r := range rs.Rows {
		if r.Skipped != "" {
			t.add(r.Title, "not run", "", "", "", "", "", "", "", "", "", "")
			continue
		}
		for i, f := range r.Ways {
			title, promoted := r.Title, ""
			if r.Promoted != nil {
				promoted = number(*r.Promoted)
			}
			if i > 0 {
				title, promoted = "", ""
			}
			lost := fmt.Sprint(f.Lost)
			if r.Lossy && f.Lost > 0 {
				lost += " (Redis)"
			}
			failures := fmt.Sprintf("%d+%d, %d, %d", f.Failed, f.Refused, f.Unknown, f.NotRun)
			t.add(title, f.Name, promoted, f.span(), number(f.New), number(f.Longest), failures, f.Others,
				f.Acked, lost, f.Doubled, f.Ran)
		}
		if r.Direct.Before >= 0 {
			t.add("", "straight", "", "", "", "", "", r.Direct, "", "", "", "")
		}
	}
	return t.String()
}

// notes is why rows were not run, and what else was seen.
func (rs results) notes() string {
	var b strings.Builder
	for _, r := range rs.Rows {
		if r.Skipped != "" {
			fmt.Fprintf(&b, "- %s: not run, for %s\n", r.Title, r.Skipped)
		}
		for _, note := range r.Notes {
			fmt.Fprintf(&b, "- %s: %s\n", r.Title, note)
		}
		if n := len(r.Earlier); n > 0 {
			fmt.Fprintf(&b, "- %s: the last of %d rounds; the targets below are for the median\n", r.Title,
				n+1)
		}
		for _, wrong := range r.wrong() {
			fmt.Fprintf(&b, "- %s: **must not be**: %s\n", r.Title, firstLine(wrong))
		}
	}
	return b.String()
}

// number is a time in ms: with tenths, if it is short.
func number(f float64) string {
	switch {
	case f < 0:
		return "none"
	case f < 10:
		return fmt.Sprintf("%.1f", f)
	}
	return fmt.Sprintf("%.0f", f)
}

func (f figures) span() string {
	if f.Late > 0 {
		return fmt.Sprintf("%d did not", f.Late)
	}
	return number(f.First) + ".." + number(f.Last)
}

func (p pair) String() string {
	if p.Before < 0 && p.During < 0 {
		return ""
	}
	return number(p.Before) + " -> " + number(p.During)
}

// errors are the kinds of errors of each row.
func (rs results) errors() string {
	t := table{{"fault", "clients", "errors", "how often"}}
	for _, r := range rs.Rows {
		for _, f := range r.Ways {
			for _, kind := range slices.Sorted(maps.Keys(f.Errors)) {
				t.add(r.Name, f.Name, strings.ReplaceAll(kind, "|", "/"), f.Errors[kind])
			}
			if f.Other > 0 {
				t.add(r.Name, f.Name, "of clients that it does not strike", f.Other)
			}
		}
	}
	if len(t) == 1 {
		return "None.\n"
	}
	return page.Table(t).String()
}

// places is when and where each row was seen, and with what.
func (rs results) places() string {
	t := table{{"fault", "when", "seed", "machine", "command"}}
	for _, r := range rs.Rows {
		if r.Skipped == "" {
			t.add(r.Name, r.When.UTC().Format(minute), r.Seed, strings.Join(append(r.Machine, r.Busy), "; "),
				"`"+r.Command+"`")
		}
	}
	return page.Table(t).String()
}

// words is a row in the words of a run.
func (r row) words() string {
	one := results{Rows: []row{r}}
	return fmt.Sprintf("%s\n%s%s", r.Name, one.table(), one.notes())
}

// drawn are the rows of which there is a plot.
var drawn = []string{"failover", "kill", "stop-15s", "cut"}

// plots are the pictures of faults.
func (rs results) plots() (all []page.Plot) {
	for _, r := range rs.Rows {
		if r.Skipped != "" || !slices.Contains(drawn, r.Name) {
			continue
		}
		p := page.Plot{File: r.Name, Title: r.Title, X: "seconds from the fault",
			Y: "commands a second at the struck shard"}
		for _, f := range r.Ways {
			l := page.Line{Name: f.Name}
			for _, at := range f.Rate {
				l.Add(at[0], at[1])
			}
			p.Lines = append(p.Lines, l)
		}
		all = append(all, p)
	}
	return all
}
