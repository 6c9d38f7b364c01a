package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"lockproxy/integration/page"
)

// written are the files of a page: the page itself, its pictures and the results that it is made of, by
// name. All but the page lie in a folder that has its name.
//
//	docs/performance.md
//	docs/performance/results.json
//	docs/performance/tried.md      by hand: what was tried for what is not reached; it is part of the page
//	docs/performance/NAME.svg
type written struct{ page string }

func (w written) folder() string { return strings.TrimSuffix(w.page, filepath.Ext(w.page)) }

func (w written) results() string { return filepath.Join(w.folder(), "results.json") }

// update puts new reports in the place of older ones and writes all.
func (w written) update(newer []report) error {
	if err := os.MkdirAll(w.folder(), 0o755); err != nil {
		return err
	}
	old, err := loadReports(w.results())
	if err != nil {
		return err
	}
	all := merged(old, newer)
	if err := saveReports(w.results(), all); err != nil {
		return err
	}
	return w.write(all)
}

// write makes the page and the pictures.
func (w written) write(all []report) error {
	for _, r := range all {
		for _, p := range r.Plots {
			if err := os.WriteFile(filepath.Join(w.folder(), p.File+".svg"), []byte(p.SVG()),
				0o644); err != nil {
				return err
			}
		}
	}
	return os.WriteFile(w.page, []byte(w.text(all)), 0o644)
}

// text is the page.
func (w written) text(all []report) string {
	var b strings.Builder
	b.WriteString("# Performance\n\n" +
		"Made by `make bench BENCHFLAGS=\"-write docs/performance.md\"`, not by hand. Each section was\n" +
		"measured alone, the contenders in turn in every round, and a ratio is the median of those of\n" +
		"the rounds, with the lowest and the highest. How to measure on a machine of your own:\n" +
		"[commands for work](house.md#commands-for-work).\n\n")
	if missing := missingSections(all); missing != nil {
		fmt.Fprintf(&b, "**Not measured here: %s.**\n\n", strings.Join(missing, ", "))
	}
	b.WriteString("## Targets\n\n")
	b.WriteString(targetTable(all))
	// Who writes the page also finds the notes; without them there is nothing to add.
	if notes, err := os.ReadFile(filepath.Join(w.folder(), "tried.md")); err == nil {
		fmt.Fprintf(&b, "\n## What was tried\n\n%s", notes)
	}
	for _, r := range all {
		fmt.Fprintf(&b, "\n## %s\n\n", r.Section)
		fmt.Fprintf(&b, "%s UTC, %d rounds. %s.\n\n", r.When.UTC().Format("2006-01-02 15:04"), r.Rounds,
			r.Busy)
		for _, line := range r.Machine {
			fmt.Fprintf(&b, "- %s\n", line)
		}
		b.WriteString(strings.ReplaceAll(r.Text, "\n## ", "\n### "))
		for _, p := range r.Plots {
			fmt.Fprintf(&b, "\n![%s](%s/%s.svg)\n", p.Title, filepath.Base(w.folder()), p.File)
		}
	}
	return b.String()
}

func missingSections(all []report) (missing []string) {
	for _, name := range sectionNames() {
		if !slices.ContainsFunc(all, func(r report) bool { return r.Section == name }) {
			missing = append(missing, "`"+name+"`")
		}
	}
	return missing
}

// targetTable is every target, and whether it is reached.
func targetTable(all []report) string {
	var targets []verdict
	for _, r := range all {
		targets = append(targets, r.Targets...)
	}
	return page.Targets(targets)
}
