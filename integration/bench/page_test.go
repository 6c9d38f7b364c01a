package main

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"lockproxy/integration/page"
)

var update = flag.Bool("update", false, "make docs/performance.md anew, from the results that are kept")

func canned(section, text string) report {
	return report{
		Section: section, Rounds: 3, When: time.Date(2026, 11, 23, 18, 0, 0, 0, time.UTC),
		Machine: []string{"machine: 2 x processor"}, Busy: "2 CPUs, of which other programs used 0.50",
		Text: "\n## " + text + "\n\nwords\n",
		Targets: []page.Verdict{page.AtMost(1, "%.2f", text+": CPU", page.SpreadOf(0.9, 0.8, 1.2)),
			page.AtLeast(2, "%.1f", text+": rate", page.SpreadOf(1.9)),
			page.AtLeast(2, "%.1f", text+": throughput", nil)},
		Plots: []page.Plot{
			{File: section + "-lines", Lines: []page.Line{{Name: "one", Points: [][2]float64{{50, 1}}}}},
			{File: section + "-empty"},
		},
	}
}

// A page is written section by section: newer results take the place of older ones of the same section, all
// others stay, and what has never been measured is named.
func TestPage(t *testing.T) {
	w := page.Files(filepath.Join(t.TempDir(), "docs", "performance.md"))
	for _, r := range [][]report{{canned("lock", "old words")}, {canned("forward", "Forwarding")},
		{canned("lock", "new words")}} {
		if err := keepPage(w, r); err != nil {
			t.Fatal(err)
		}
	}
	if err := keepPage(w, nil); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(string(w))
	if err != nil {
		t.Fatal(err)
	}
	from := 0
	for _, want := range []string{
		"**Not measured here: `connections`, ",
		"| Forwarding: CPU", "|   <= 1 |    0.90 | 0.80 to 1.20 |      reached |",
		"| Forwarding: rate", "|   >= 2 |     1.9 |   1.9 to 1.9 |  not reached |",
		"| Forwarding: throughput", "|         |              | not measured |",
		"| new words: CPU",
		"\n## forward\n\n2026-11-23 18:00 UTC, 3 rounds. 2 CPUs, of which other programs used 0.50.\n",
		"\n- machine: 2 x processor\n", "\n### Forwarding\n", "](performance/forward-lines.svg)\n",
		"\n## lock\n", "\n- machine and versions of [forward](#forward)\n", "\n### new words\n",
	} {
		at := strings.Index(string(text[from:]), want)
		if at < 0 {
			t.Fatalf("no %q behind byte %d of\n%s", want, from, text)
		}
		from += at
	}
	if strings.Contains(string(text), "old words") {
		t.Errorf("old results are there still:\n%s", text)
	}
	for _, r := range []string{"lock", "forward"} {
		for _, name := range []string{"-lines", "-empty"} {
			text, err := os.ReadFile(filepath.Join(w.Folder(), r+name+".svg"))
			if err != nil || len(text) == 0 {
				t.Errorf("%s%s: %d bytes, %v", r, name, len(text), err)
			}
		}
	}
}

// The page and its pictures are those of the results that are kept, and were not changed by hand.
func TestPageIsOfItsResults(t *testing.T) {
	const docs = "../../docs"
	var all []report
	kept := page.Files(filepath.Join(docs, "performance.md"))
	err := kept.Load(&all)
	if err != nil || len(all) == 0 {
		t.Fatalf("%d results: %v", len(all), err)
	}
	if *update {
		if err := writePage(kept, all); err != nil {
			t.Fatal(err)
		}
	}
	w := page.Files(filepath.Join(t.TempDir(), "performance.md"))
	if err := writePage(w, all); err != nil {
		t.Fatal(err)
	}
	made := []string{"performance.md"}
	for _, r := range all {
		for _, p := range r.Plots {
			made = append(made, filepath.Join("performance", p.File+".svg"))
		}
	}
	for _, name := range made {
		want, err := os.ReadFile(filepath.Join(filepath.Dir(string(w)), name))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(filepath.Join(docs, name)); err != nil || string(got) != string(want) {
			t.Errorf("docs/%s is not of its results (%v): -run Results -update makes it anew", name, err)
		}
	}
}
