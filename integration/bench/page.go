package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"lockproxy/integration/page"
)

// report is what a section measured: its tables, the targets, and what is drawn.
type report struct {
	Section string         `json:"section"`
	When    time.Time      `json:"when"`    // it ended
	Rounds  int            `json:"rounds"`  // as -rounds says
	Machine []string       `json:"machine"` // and what ran there
	Busy    string         `json:"busy"`    // how busy the machine was
	Text    string         `json:"text"`
	Targets []page.Verdict `json:"targets,omitempty"`
	Plots   []page.Plot    `json:"plots,omitempty"`
}

// printf adds to the text, and shows it.
func (r *report) printf(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	r.Text += text
	fmt.Print(text)
}

// hold adds targets, and what was reached of them.
func (r *report) hold(all ...page.Verdict) { r.Targets = append(r.Targets, all...) }

// merged are old reports with newer ones in their places, in the order of the sections, and the names of the
// sections that are still missing.
func merged(old, newer []report) (all []report, missing []string) {
	latest := map[string]report{}
	for _, r := range append(old, newer...) {
		latest[r.Section] = r
	}
	for _, name := range sectionNames() {
		if r, ok := latest[name]; ok {
			all = append(all, r)
		} else {
			missing = append(missing, "`"+name+"`")
		}
	}
	return all, missing
}

// keepPage puts new reports in the place of older ones and writes all.
func keepPage(f page.Files, newer []report) error {
	var old []report
	if err := f.Load(&old); err != nil {
		return err
	}
	all, _ := merged(old, newer)
	return errors.Join(writePage(f, all), f.Keep(all))
}

// writePage makes the page and the pictures. In the folder is also tried.md, by hand: what was tried for what
// is not reached.
func writePage(f page.Files, all []report) error {
	var plots []page.Plot
	for _, r := range all {
		plots = append(plots, r.Plots...)
	}
	return f.Print(pageText(f, all), plots)
}

// pageText is the page.
func pageText(f page.Files, all []report) string {
	var b strings.Builder
	b.WriteString("# Performance\n\n" +
		"Made by `make bench BENCHFLAGS=\"-write docs/performance.md\"`, not by hand. Each section was\n" +
		"measured alone, the contenders in turn in every round, and a ratio is the median of those of\n" +
		"the rounds, with the lowest and the highest. How to measure on a machine of your own:\n" +
		"[bench](working.md#bench).\n\n")
	if _, missing := merged(all, nil); missing != nil {
		fmt.Fprintf(&b, "**Not measured here: %s.**\n\n", strings.Join(missing, ", "))
	}
	b.WriteString("## Targets\n\n" + targetTable(all))
	b.WriteString("\nNotes by hand on targets that are not reached, and on what the figures do not say:\n" +
		"[what was tried](performance/tried.md).\n")
	first := map[string]string{} // the section that has told of this machine
	for _, r := range all {
		machine := strings.Join(r.Machine, "\n- ")
		if name := first[machine]; name != "" {
			machine = "machine and versions of [" + name + "](#" + name + ")"
		} else {
			first[machine] = r.Section
		}
		busy, _, _ := strings.Cut(r.Busy, ";") // the results have the load averages, too
		fmt.Fprintf(&b, "\n## %s\n\n%s UTC, %d rounds. %s.\n\n- %s\n", r.Section,
			r.When.UTC().Format("2006-01-02 15:04"), r.Rounds, busy, machine)
		b.WriteString(strings.ReplaceAll(r.Text, "\n## ", "\n### "))
		for _, p := range r.Plots {
			fmt.Fprintf(&b, "\n![%s](%s/%s.svg)\n", p.Title, filepath.Base(f.Folder()), p.File)
		}
	}
	return b.String()
}

// targetTable is every target, and whether it is reached.
func targetTable(all []report) string {
	var targets []page.Verdict
	for _, r := range all {
		targets = append(targets, r.Targets...)
	}
	return page.Targets(targets).String()
}
