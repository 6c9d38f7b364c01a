package main

import (
	"flag"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"lockproxy/integration/page"
)

var update = flag.Bool("update", false, "make docs/resilience.md anew, from the results that are kept")

// canned is a row that nobody has seen.
func canned(name string, promoted float64) row {
	f := faultNamed(name)
	r := row{Name: name, Title: f.title, Lossy: f.lossy,
		seen: seen{When: time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC), Seed: 7, Command: "make chaos",
			Machine: []string{"machine: 2 x processor"}, Busy: "not busy"},
		Direct: pair{1, 2}, Ways: []figures{
			{Name: "lockproxy", First: 3, Last: 42, New: 0.5, Visits: 9, Longest: 99, Others: pair{1.5, 12},
				verdict: verdict{Writes: 100, Acked: 98, Unknown: 2, Reads: 50, Lost: 4},
				Errors:  map[string]int{"INCR unknown: EOF": 2}, Rate: []point{{-1, 100}, {0, 0}, {1, 90}}},
			{Name: "go-redis", First: -1, Last: -1, Late: 5, New: -1, Others: pair{-1, -1},
				verdict: verdict{Writes: 90, Acked: 80, Doubled: 3, Ran: 1}},
		}}
	if promoted > 0 {
		r.Promoted = &promoted
	}
	return r
}

// A page is made fault by fault: a newer row takes the place of the older one, all others stay, and what has
// not been seen is named.
func TestPage(t *testing.T) {
	b := book{Files: page.Files(filepath.Join(t.TempDir(), "docs", "resilience.md"))}
	skipped := blank(faultNamed("cut"), options{})
	skipped.Skipped = "it needs iptables"
	sick := canned("sleep", 0)
	sick.Notes, sick.Wrong = []string{"it snored"}, []string{"1 ran twice\nor more"}
	for _, r := range []row{sick, canned("kill", 1), skipped, canned("kill", 7777)} {
		again := book{Files: b.Files}
		if err := again.load(); err != nil {
			t.Fatal(err)
		}
		if err := again.keepThat(func(rs *results) { rs.put(r) }); err != nil {
			t.Fatal(err)
		}
		b = again
	}
	text, err := os.ReadFile(string(b.Files))
	if err != nil {
		t.Fatal(err)
	}
	from := 0
	for _, want := range []string{
		"# Under fire\n", "**Not seen here: `failover`, ", "\n## Faults\n",
		"| kill: master killed (-9) ",
		" lockproxy |     7777 |", " 3.0..42 |", " 0.5 |", " 99 |", " 0+0, 2, 0 |",
		" 1.5 -> 12 |", " 1.0 -> 2.0 |", " 4 (Redis) |", " go-redis |", " 5 did not |", " none |",
		"| cut: master cut off: every packet dropped, for 16 s ", " not run |",
		"| sleep: DEBUG SLEEP 2 at a master ", "- cut: not run, for it needs iptables\n",
		"- sleep: it snored\n", "- sleep: **must not be**: 1 ran twice\n",
		"- lockproxy: 196 writes acknowledged, 4 whose outcome is unknown",
		"- go-redis: 160 writes acknowledged", "6 ran twice, 2 told \"not run\" ran", "\n## Targets\n",
		" until every client goes on ", " reached |", "\n## Errors that clients of lockproxy were told\n",
		" EOF | unknown 2 |",
		"](resilience/kill.svg)\n", "\n## When and where\n",
		"- kill, sleep: 2026-11-25 12:00 UTC; ",
		" machine: 2 x processor\n",
	} {
		at := strings.Index(string(text[from:]), want)
		if at < 0 {
			t.Fatalf("no %q behind byte %d of\n%s", want, from, text)
		}
		from += at
	}
	if strings.Contains(string(text), "| 1.0 |") {
		t.Errorf("the older row is there still:\n%s", text)
	}
	if _, err := os.Stat(filepath.Join(b.Folder(), "kill.svg")); err != nil {
		t.Error(err)
	}
}

// A table without rows says so.
func TestNoErrors(t *testing.T) {
	quiet := canned("kill", 1)
	quiet.Ways[0].Errors = nil
	text := (&book{}).text(results{Rows: []row{quiet}})
	if !strings.Contains(text, "\n## Errors that clients of lockproxy were told\n\nNone.\n") {
		t.Errorf("no word of that in\n%s", text)
	}
}

// A target is judged by the median of all rounds, and what must not be counts in whichever round it was.
func TestTargetsAreForAllRounds(t *testing.T) {
	last, first, second := canned("kill", 1), canned("kill", 1), canned("kill", 1)
	last.Ways[0].Last, first.Ways[0].Last, second.Ways[0].Last = 77, 20, 40
	first.Wrong = []string{"1 ran twice"}
	last.Earlier = []row{first, second}
	text := (&book{}).text(results{Rows: []row{last}})
	for _, want := range []string{"the last of 3 rounds", "**must not be**: 1 ran twice",
		"- lockproxy: 294 writes acknowledged", "<= 50 |      40 |", " 20 to 77 |"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

// The page and its pictures are those of the results that are kept, and were not changed by hand.
func TestPageIsOfItsResults(t *testing.T) {
	kept := book{Files: "../../docs/resilience.md"}
	if err := kept.load(); err != nil || len(kept.kept.Rows) == 0 {
		t.Fatalf("%d results: %v", len(kept.kept.Rows), err)
	}
	if *update {
		if err := kept.print(); err != nil {
			t.Fatal(err)
		}
	}
	anew := book{Files: page.Files(filepath.Join(t.TempDir(), "resilience.md")), kept: kept.kept}
	if err := anew.print(); err != nil {
		t.Fatal(err)
	}
	made := []string{"resilience.md"}
	for _, p := range kept.kept.plots() {
		made = append(made, filepath.Join("resilience", p.File+".svg"))
	}
	for _, name := range made {
		want, err := os.ReadFile(filepath.Join(filepath.Dir(string(anew.Files)), name))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(filepath.Join("../../docs", name)); err != nil ||
			string(got) != string(want) {
			t.Errorf("docs/%s is not of its results (%v): -run Results -update makes it anew", name, err)
		}
	}
}

// A soak shows what the proxies used.
func TestSoakIsShown(t *testing.T) {
	k := &soak{seen: seen{Seed: 7, Wrong: []string{"1 ran twice"}}, Lasted: 3600, Rounds: 2,
		Faults: map[string]int{"kill": 2}, Left: []used{{Memory: 30}}}
	var series []used
	for at := 0.0; at <= 3600; at += 60 {
		series = append(series, used{At: at, Memory: 40 + at/1800, Descriptors: 50, Goroutines: 12})
	}
	series[0].Memory = 1000 // before it is warm
	k.Series = [][]used{series}
	text := fill("soak", k)
	for _, want := range []string{"| resident memory MiB |", " +2.00 |", " 30 |", "| descriptors ",
		" +0.00 |",
		"kill 2", "**wrong**: 1 ran twice", "](resilience/soak-memory.svg)"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if len(k.plots()) != 3 || len(k.plots()[0].Lines) != 1 {
		t.Errorf("%d plots", len(k.plots()))
	}
}

// Sums of traces add up by topology and server; a later one of the same seed says more than the earlier one.
func TestTracesAddUp(t *testing.T) {
	file := filepath.Join(t.TempDir(), "sums")
	if err := os.WriteFile(file, []byte(`{"test":"TestTraces","server":"redis7","seed":1,"ops":5}
{"test":"TestTraces","server":"redis7","seed":1,"ops":60,"grants":6,"faults":{"Redis stopped":2},"took":60}
{"test":"TestTraces","server":"redis7","seed":2,"ops":40,"faults":{"Redis stopped":1},"exceptions":{"late":3}}
{"test":"TestRedlockTraces/5_masters","server":"valkey9","seed":1,"ops":7,"violations":1}
`), 0o600); err != nil {
		t.Fatal(err)
	}
	b := book{Files: page.Files(filepath.Join(t.TempDir(), "resilience.md"))}
	for range 2 { // again, the same lines say nothing new
		if err := b.addTraces(file); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(string(b.Files))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"| cluster, 3 + 3     |  redis7 |        100 |      6 |",
		"| RedLock, 5 masters | valkey9 |          7 |", "| all                |         |        107 |",
		"\nExceptions, and how often: late 3.\n"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if got := fill("traces", b.kept.Traces); !strings.Contains(got, "|          1 |") {
		t.Errorf("no violation in\n%s", got)
	}
}

func TestSlope(t *testing.T) {
	for _, tt := range []struct {
		points  [][2]float64
		perHour float64
	}{
		{nil, 0}, {[][2]float64{{5, 5}}, 0}, {[][2]float64{{5, 5}, {5, 7}}, 0},
		{[][2]float64{{0, 1}, {1800, 2}, {3600, 3}}, 2},
		{[][2]float64{{0, 1}, {1, 3}, {2, 1}, {3, 3}}, 0.4 * 3600},
	} {
		if perHour := slope(tt.points); math.Abs(perHour-tt.perHour) > 1e-6 {
			t.Errorf("%v: %v, want %v", tt.points, perHour, tt.perHour)
		}
	}
}

// Every fault has a name and a title of its own, and the soak has no fault that would end a proxy.
func TestFaultsAreNamed(t *testing.T) {
	names := faultNames()
	for i, f := range faults {
		if f.name == "" || f.title == "" || f.strike == nil || slices.Index(names, f.name) != i {
			t.Errorf("fault %d: %q %q", i, f.name, f.title)
		}
	}
	for _, name := range append(slices.Clone(soaked), drawn...) {
		if f := faultNamed(name); f == nil || f.needs != nothing && slices.Contains(soaked, name) ||
			f.links ||
			f.behind {
			t.Errorf("%s cannot be had in a soak", name)
		}
	}
}

func TestParse(t *testing.T) {
	for _, tt := range []struct{ args, fails string }{
		{"", ""}, {"-quick -seed 7", ""}, {"-only kill,soak -for 1h", ""},
		{"kill", "-flags only"}, {"-only dance", "-only dance: must be of failover, "},
		{"-seed 7 -write x -quick", ""}, {"-for 1s", "-for 1s: must be"}, {"-node-timeout 1ms",
			"-node-timeout 1ms: must be"},
	} {
		o, err := parse(strings.Fields(tt.args))
		if tt.fails == "" != (err == nil) || err != nil && !strings.Contains(err.Error(), tt.fails) {
			t.Errorf("%q: %v", tt.args, err)
		}
		if err == nil && (o.seed == 0 || o.calm == 0 || o.wants("soak") != strings.Contains(tt.args,
			"soak")) {
			t.Errorf("%q: %+v", tt.args, o)
		}
		if want := `make chaos CHAOSFLAGS="-quick=true -seed=7"`; o.seed == 7 && o.command != want {
			t.Errorf("%q: %s, want %s", tt.args, o.command, want)
		}
	}
}
