package main

import (
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
	if err == nil {
		b.kept = results{}
		err = json.Unmarshal(text, &b.kept)
	}
	if err != nil {
		err = fmt.Errorf("results of earlier runs: %w", err)
	}
	return err
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

const head = `# Under fire

Made by ` + "`make chaos CHAOSFLAGS=\"-write docs/resilience.md\"`" + `, not by hand. Each fault happened to a Redis
Cluster of its own, of three masters with a replica each, behind two lockproxies with their default settings. Clients
of theirs, and go-redis's ClusterClient with its defaults straight at the cluster beside them, did the same at the same
time: SET, GET, INCR, RPUSH, MULTI and EVAL on fresh keys, RPUSH and BLPOP on queues, each client at one shard and one
thing after the other. Afterwards everything that they had been told was compared with what was there.

- **promoted**: from the fault to another master, as its ROLE says, asked every 4 ms.
- **goes on**: from the promotion, or from the end of the fault if there was none, to the first success of the first
  and of the last of the clients that the fault strikes and that were there before; **new**: of a connection, or for
  go-redis a client, that was made after that. **longest**: the longest that a struck client waited for one reply.
- **errors** of struck clients: reads that failed (those of new connections behind the +), writes that "may or may not
  have run", writes that were told that they had not run.
- **p99 of others**: of clients at the other shards, before the fault and since it began.
- **lost** are acknowledged writes that are not there. Where a replica takes over that had not got them yet, Redis
  itself loses them, whoever the client is: (Redis). **doubled** ran twice; **ran** were told that they had not run, and
  did. All three must be 0 for lockproxy, but for what Redis loses. An element that a BLPOP took whose reply was lost is
  gone; go-redis then sends that BLPOP again without a word, so that such an element counts as lost.

A master of a cluster that starts again refuses commands for 2 s by itself, whoever asks. All times are in ms.
`

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
	t := page.Table{{"fault", "clients", "promoted", "goes on", "new", "longest", "errors", "p99 of others",
		"acknowledged", "lost", "doubled", "ran"}}
	for _, r := range rs.Rows {
		if r.Skipped != "" {
			line := []string{r.Title, "not run"}
			t = append(t, append(line, make([]string, len(t[0])-len(line))...))
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
			t = append(t, []string{title, f.Name, promoted, f.span(), number(f.New), number(f.Longest),
				f.failures(), f.Others.String(), fmt.Sprint(f.Acked), lost, fmt.Sprint(f.Doubled),
				fmt.Sprint(f.Ran)})
		}
		if r.Direct.Before >= 0 {
			t = append(t, []string{"", "straight", "", "", "", "", "", r.Direct.String(), "", "", "", ""})
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

func (f figures) failures() string {
	return fmt.Sprintf("%d+%d, %d, %d", f.Failed, f.Refused, f.Unknown, f.NotRun)
}

func (p pair) String() string {
	if p.Before < 0 && p.During < 0 {
		return ""
	}
	return number(p.Before) + " -> " + number(p.During)
}

// errors are the kinds of errors of each row.
func (rs results) errors() string {
	t := page.Table{{"fault", "clients", "errors", "how often"}}
	for _, r := range rs.Rows {
		for _, f := range r.Ways {
			for _, kind := range slices.Sorted(maps.Keys(f.Errors)) {
				t = append(t, []string{r.Name, f.Name, strings.ReplaceAll(kind, "|", "/"),
					fmt.Sprint(f.Errors[kind])})
			}
			if f.Other > 0 {
				t = append(t, []string{r.Name, f.Name, "of clients that it does not strike",
					fmt.Sprint(f.Other)})
			}
		}
	}
	if len(t) == 1 {
		return "None.\n"
	}
	return t.String()
}

// places is when and where each row was seen, and with what.
func (rs results) places() string {
	t := page.Table{{"fault", "when", "seed", "machine", "command"}}
	for _, r := range rs.Rows {
		if r.Skipped == "" {
			t = append(t, []string{r.Name, r.When.UTC().Format("2006-01-02 15:04 UTC"), fmt.Sprint(r.Seed),
				strings.Join(append(r.Machine, r.Busy), "; "), "`" + r.Command + "`"})
		}
	}
	return t.String()
}

// words is a row in the words of a run.
func (r row) words() string {
	if r.Skipped != "" {
		return fmt.Sprintf("%-14s not run: %s", r.Name, r.Skipped)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%-14s", r.Name)
	if r.Promoted != nil {
		fmt.Fprintf(&b, " promoted after %s ms;", number(*r.Promoted))
	}
	for _, f := range r.Ways {
		fmt.Fprintf(&b, " %s: goes on %s, new %s, longest %s, errors %s, %d acknowledged, %d lost, %d "+
			"doubled, "+
			"%d ran;", f.Name, f.span(), number(f.New), number(f.Longest), f.failures(), f.Acked, f.Lost,
			f.Doubled, f.Ran)
	}
	for _, note := range r.Notes {
		fmt.Fprintf(&b, "\n    %s", note)
	}
	for _, wrong := range r.Wrong {
		fmt.Fprintf(&b, "\n    WRONG: %s", wrong)
	}
	return b.String()
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
