package main

import (
	"cmp"
	_ "embed"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"text/template"
	"time"

	"lockproxy/integration/page"
	"lockproxy/integration/trace"
)

// book are the results, and the files of the page that is made of them.
type book struct {
	page.Files
	kept  results
	fresh results // of this run
}

// results are what was seen.
type results struct {
	Rows   []row       `json:"rows"`
	Soak   *soak       `json:"soak,omitempty"`
	Traces []trace.Sum `json:"traces,omitempty"`
}

// load reads what earlier runs have kept.
func (b *book) load() error {
	b.kept = results{}
	return b.Load(&b.kept)
}

// keepThat puts what was seen in its place, and writes the page.
func (b *book) keepThat(put func(*results)) error {
	if err := b.load(); err != nil { // another run may have kept something
		return err
	}
	put(&b.fresh)
	put(&b.kept)
	return cmp.Or(b.Keep(b.kept), b.print())
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

// print writes what is made of the results.
func (b *book) print() error { return b.Print(b.text(b.kept), b.kept.plots()) }

// plots are all pictures.
func (rs results) plots() []page.Plot { return append(plotsOf(rs.Rows), rs.Soak.plots()...) }

// text is the page, or without one what a run has to say.
func (b *book) text(rs results) string {
	folder := ""
	if b.Files != "" {
		folder = filepath.Base(b.Folder())
	}
	return fill("page", struct {
		results
		Folder string
	}{rs, folder})
}

//go:embed text/page.txt
var pageText string

// pages are the parts of the page.
var pages = template.Must(template.New("").Funcs(template.FuncMap{
	"join": strings.Join, "first": firstLine, "number": number, "span": figures.span, "missing": missing,
	"wrong": row.wrong, "rounds": row.rounds, "sums": sums, "targets": targetsOf, "plots": plotsOf,
	"both": (*soak).both, "trends": (*soak).trends, "curves": (*soak).plots, "addUp": addUp,
	"faults": faultsOf, "verdicts": page.Targets,
	"grouped": grouped, "alike": alike,
	"bare":   func(cell string) string { return strings.ReplaceAll(cell, "|", "/") },
	"day":    func(at time.Time) string { return at.UTC().Format(time.DateOnly) },
	"idle":   func() time.Duration { return idle },
	"keys":   func(m map[string]int) []string { return slices.Sorted(maps.Keys(m)) },
	"lasted": func(s float64) time.Duration { return time.Duration(math.Round(s)) * time.Second },
	"minute": func(at time.Time) string { return at.UTC().Format("2006-01-02 15:04 UTC") },
}).Parse(pageText))

// fill is a part of the page. Lines that begin with a bar become tables, if there are rows.
func fill(part string, of any) string {
	var raw, b strings.Builder
	if err := pages.ExecuteTemplate(&raw, part, of); err != nil {
		panic(err) // a mistake in the part
	}
	var t page.Table
	for line := range strings.SplitAfterSeq(raw.String(), "\n") {
		if cells, ok := strings.CutPrefix(line, "|"); ok {
			t = append(t, strings.Split(strings.TrimSuffix(cells, "|\n"), "|"))
			continue
		}
		switch {
		case len(t) > 1:
			b.WriteString(t.String())
		case t != nil:
			b.WriteString("None.\n")
		}
		t = nil
		b.WriteString(line)
	}
	return b.String()
}

// grouped are errors by their words, whatever the command was, each with how often it had which outcome.
func grouped(errors map[string]int) map[string]string {
	words := map[string]string{}
	counts := map[[2]string]int{}
	for kind, n := range errors {
		outcome, why, _ := strings.Cut(kind, ": ")
		if command, rest, ok := strings.Cut(outcome, " "); ok && command != "new" {
			outcome = rest
		}
		counts[[2]string{strings.TrimPrefix(why, "it may or may not have run: "), outcome}] += n
	}
	for _, k := range slices.SortedFunc(maps.Keys(counts), func(a, b [2]string) int {
		return slices.Compare(a[:], b[:])
	}) {
		if words[k[0]] != "" {
			words[k[0]] += ", "
		}
		words[k[0]] += fmt.Sprintf("%s %d", k[1], counts[k])
	}
	return words
}

// alike are the rows of one command, seed and machine together, in the order of their first ones.
func alike(rows []row) (all [][]row) {
	for _, r := range rows {
		if r.Skipped != "" {
			continue
		}
		i := slices.IndexFunc(all, func(of []row) bool {
			return of[0].Command == r.Command && of[0].Seed == r.Seed &&
				slices.Equal(of[0].Machine, r.Machine)
		})
		if i < 0 {
			i, all = len(all), append(all, nil)
		}
		all[i] = append(all[i], r)
	}
	return all
}

// missing are the faults of which nothing is known.
func missing(rows []row) (names []string) {
	for _, name := range faultNames() {
		if !slices.ContainsFunc(rows, func(r row) bool { return r.Name == name }) {
			names = append(names, "`"+name+"`")
		}
	}
	return names
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

// words is a row in the words of a run.
func (r row) words() string { return fill("row", []row{r}) }

// drawn are the rows of which there is a plot.
var drawn = []string{"failover", "kill", "stop-15s", "cut"}

// plotsOf are the pictures of faults.
func plotsOf(rows []row) (all []page.Plot) {
	for _, r := range rows {
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
