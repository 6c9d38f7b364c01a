package compat

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Status is what became of a test.
type Status string

const (
	OK      Status = "ok"
	Failed  Status = "err"     // the suite says so
	Stalled Status = "hang"    // it was left out, since it never came to its end
	Skipped Status = "skipped" // the suite leaves it out, for its tags
	Missing Status = "missing" // the suite never came to it
)

// Outcome is one test of a file and what became of it.
type Outcome struct {
	Name   string // a name that comes again has a number: "name #2"
	Status Status
	Detail string // of a failure, in the suite's words; lines
}

// Record is what a log tells of one run of a file.
type Record struct {
	Outcomes []Outcome // in the suite's order
	Stalled  string    // the test in which the suite gave up waiting
	Broken   string    // why the suite itself ended early, "" if it did not
}

// Count is how many tests became one of these.
func (r *Record) Count(these ...Status) (n int) {
	for _, o := range r.Outcomes {
		if slices.Contains(these, o.Status) {
			n++
		}
	}
	return n
}

// Tests is how many tests ran, or should have.
func (r *Record) Tests() int { return r.Count(OK, Failed, Stalled) }

var (
	// A line that begins a message of the suite, such as "[ok]: " or "[3/80 done]: ".
	message = regexp.MustCompile(`^\[([a-z0-9/ ]+|TIMEOUT)\]: `)
	took    = regexp.MustCompile(`(?s)^(.*) \(\d+ ms\)(?:\n.*)?$`) // a test may print more behind it
	inFile  = regexp.MustCompile(`(?s)^(.*?) in tests/[\w/.-]+\.tcl(?:\n(.*))?$`)
	running = regexp.MustCompile(`(?m)=> \(IN PROGRESS\) (.*)$`)
)

// Parse reads the log of a run. A test's name may have anything in it, lines too.
func Parse(log string) Record {
	var r Record
	seen := map[string]int{}
	add := func(status Status, name, detail string) {
		if status != Skipped {
			if seen[name]++; seen[name] > 1 {
				name = fmt.Sprintf("%s #%d", name, seen[name])
			}
		}
		r.Outcomes = append(r.Outcomes, Outcome{name, status, strings.TrimSpace(detail)})
	}
	text, _, ended := strings.Cut(log, "\n                   The End\n")
	for _, m := range messages(text) {
		switch m.kind {
		case "ok":
			add(OK, took.ReplaceAllString(m.text, "$1"), "")
		case "err":
			name, detail := failure(m.text)
			add(Failed, name, detail)
		case "ignore":
			add(Skipped, m.text, "")
		case "exception":
			r.Broken = m.text
		case "TIMEOUT":
			r.Broken = "no progress"
			if found := running.FindStringSubmatch(m.text); found != nil {
				r.Stalled = found[1]
			}
		}
	}
	if !ended && r.Broken == "" {
		r.Broken = "the suite did not come to its end\n" + tail(text, 5)
	}
	return r
}

// outside is the name of what fails outside of a test.
const outside = "(outside a test)"

// failure cuts the name of a test off what the suite says of its failure. What fails

func failure(text string) (name, detail string) {
	if found := inFile.FindStringSubmatch(text); found != nil && !strings.Contains(found[1], "\n    ") {
		return found[1], found[2]
	}
	return outside, text
}

type logged struct{ kind, text string }

// messages cuts a log into its messages. What follows a message belongs to it, up to
// the next.
func messages(log string) (all []logged) {
	for line := range strings.Lines(log) {
		if m := message.FindStringSubmatch(line); m != nil {
			all = append(all, logged{m[1], line[len(m[0]):]})
		} else if len(all) > 0 && !strings.HasPrefix(line, "Testing ") {
			all[len(all)-1].text += line
		}
	}
	for i := range all {
		all[i].text = strings.TrimRight(all[i].text, "\n")
	}
	return all
}

// Tries runs a file until it comes to its end: a test in which it stalls has failed, and is left out of
// the next try, of which there are at most that many. The tests named by stall are known to stall,
// and are left out from the start.
func Tries(most int, stall []string, try func(without []string) Record) Record {
	without := slices.Clone(stall)
	for most += len(stall); ; {
		r := try(without)
		if r.Stalled != "" {
			without = append(without, r.Stalled)
		}
		if r.Stalled == "" || len(without) >= most {
			for _, name := range without {
				r.Outcomes = append(r.Outcomes, Outcome{name, Stalled, "no progress"})
			}
			return r
		}
	}
}

func tail(text string, n int) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
