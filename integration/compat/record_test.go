package compat

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// status is what became of a test.
type status string

const (
	passed  status = "ok"
	failed  status = "err"     // the suite says so
	stalled status = "hang"    // it was left out, since it never came to its end
	skipped status = "skipped" // the suite leaves it out, for its tags
	missing status = "missing" // the suite never came to it
)

// outcome is one test of a file and what became of it.
type outcome struct {
	name   string // a name that comes again has a number: "name #2"
	status status
	detail string // of a failure, in the suite's words; lines
}

// record is what a log tells of one run of a file.
type record struct {
	outcomes []outcome // in the suite's order
	stalled  string    // the test in which the suite gave up waiting
	broken   string    // why the suite itself ended early, "" if it did not
}

// count is how many tests became one of these.
func (r *record) count(these ...status) (n int) {
	for _, o := range r.outcomes {
		if slices.Contains(these, o.status) {
			n++
		}
	}
	return n
}

// tests is how many tests ran, or should have.
func (r *record) tests() int { return r.count(passed, failed, stalled) }

var (
	// A line that begins a message of the suite, such as "[ok]: " or "[3/80 done]: ".
	message = regexp.MustCompile(`^\[([a-z0-9/ ]+|TIMEOUT)\]: `)
	took    = regexp.MustCompile(`(?s)^(.*) \(\d+ ms\)(?:\n.*)?$`) // a test may print more behind it
	inFile  = regexp.MustCompile(`(?s)^(.*?) in tests/[\w/.-]+\.tcl(?:\n(.*))?$`)
	running = regexp.MustCompile(`(?m)=> \(IN PROGRESS\) (.*)$`)
)

// parse reads the log of a run. A test's name may have anything in it, lines too.
func parse(log string) record {
	var r record
	seen := map[string]int{}
	add := func(status status, name, detail string) {
		if status != skipped {
			if seen[name]++; seen[name] > 1 {
				name = fmt.Sprintf("%s #%d", name, seen[name])
			}
		}
		r.outcomes = append(r.outcomes, outcome{name, status, strings.TrimSpace(detail)})
	}
	text, _, ended := strings.Cut(log, "\n                   The End\n")
	for _, m := range messages(text) {
		switch m.kind {
		case "ok":
			add(passed, took.ReplaceAllString(m.text, "$1"), "")
		case "err":
			name, detail := failure(m.text)
			add(failed, name, detail)
		case "ignore":
			add(skipped, m.text, "")
		case "exception":
			r.broken = m.text
		case "TIMEOUT":
			r.broken = "no progress"
			if found := running.FindStringSubmatch(m.text); found != nil {
				r.stalled = found[1]
			}
		}
	}
	if !ended && r.broken == "" {
		r.broken = "the suite did not come to its end\n" + tail(text, 5)
	}
	return r
}

// outside is the name of what fails outside of a test.
const outside = "(outside a test)"

// failure cuts the name of a test off what the suite says of its failure.
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

// tries runs a file until it comes to its end: a test in which it stalls has failed, and is left out of
// the next try, of which there are at most that many. The tests named by stall are known to stall,
// and are left out from the start.
func tries(most int, stall []string, try func(without []string) record) record {
	without := slices.Clone(stall)
	for most += len(stall); ; {
		r := try(without)
		if r.stalled != "" {
			without = append(without, r.stalled)
		}
		if r.stalled == "" || len(without) >= most {
			for _, name := range without {
				r.outcomes = append(r.outcomes, outcome{name, stalled, "no progress"})
			}
			return r
		}
	}
}

func tail(text string, n int) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

const whole = `Cleanup: may take some time... OK
Starting test server at port 15008
[ready]: 28233
Testing unit/other
[ok]: MGET (1 ms)
[ok]: MGET (0 ms)
[ok]: a [name]: with (odd) "things" [ok]: inside (12 ms) (3 ms)
[ok]: two
lines (1 ms)
[ok]: talks on (2 ms)
--------- tot-net-in (1)
Actual:   81
[ignore]: LATENCY: Tag: needs:latency denied
[ignore]: Not supported on external server
[skip]: left out
[err]: it counts in tests/unit/other.tcl
Expected '1' to be equal to '2' (context: type eval
line 3 cmd {assert_equal 1 2} proc ::test)
    while executing
"error"
[err]: MGET in tests/unit/other.tcl
[err]: SELECT 9 is not allowed
ERR SELECT 9 is not allowed
    while executing
"$client select 9"
    (file "tests/unit/other.tcl" line 1)
[1/1 done]: unit/other (0 seconds)

                   The End

Execution time of different units:
  0 seconds - unit/other

!!! WARNING The following tests failed:

*** [err]: it counts in tests/unit/other.tcl
[ok]: of the summary, no test (1 ms)
`

func TestParse(t *testing.T) {
	got := parse(whole)
	type short struct {
		name   string
		status status
		detail string
	}
	want := []short{
		{"MGET", passed, ""},
		{"MGET #2", passed, ""},
		{`a [name]: with (odd) "things" [ok]: inside (12 ms)`, passed, ""},
		{"two\nlines", passed, ""},
		{"talks on", passed, ""},
		{"LATENCY: Tag: needs:latency denied", skipped, ""},
		{"Not supported on external server", skipped, ""},
		{"it counts", failed, "Expected '1' to be equal to '2' (context: type eval"},
		{"MGET #3", failed, ""},
		{"(outside a test)", failed, "SELECT 9 is not allowed"},
	}
	var had []short
	for _, o := range got.outcomes {
		first, _, _ := strings.Cut(o.detail, "\n")
		had = append(had, short{o.name, o.status, first})
	}
	if !reflect.DeepEqual(had, want) || got.broken != "" || got.stalled != "" {
		t.Errorf("broken %q, stalled %q\n got %q\nwant %q", got.broken, got.stalled, had, want)
	}
	if ok, err, skipped := got.count(passed), got.count(failed), got.count(skipped); ok != 5 || err != 3 ||
		skipped != 2 {
		t.Errorf("%d ok, %d err, %d skipped", ok, err, skipped)
	}
}

func TestParseEndings(t *testing.T) {
	for _, tt := range []struct{ name, log, broken, stalled string }{
		{"exception", "[ok]: a (1 ms)\n[exception]: Executing test client: I/O error reading reply.\nI/O " +
			"error\n    while executing\n",
			"Executing test client: I/O error", ""},
		{"stall", "[ok]: a (1 ms)\n[TIMEOUT]: clients state report follows.\nsock5 => (IN PROGRESS) it " +
			"[waits] for ever\n" +
			"Killing still running Redis server\n\n                   The End\n\n", "no progress",
			"it [waits] for ever"},
		{"stall between tests",
			"[TIMEOUT]: clients state report follows.\nsock5 => (OK) a\n\n                   The End\n\n",
			"no progress", ""},
		{"killed", "[ok]: a (1 ms)\n[ok]: b (1", "did not come to its end", ""},
		{"nothing", "", "did not come to its end", ""},
	} {
		if r := parse(tt.log); !strings.Contains(r.broken, tt.broken) || r.stalled != tt.stalled {
			t.Errorf("%s: broken %q, stalled %q", tt.name, r.broken, r.stalled)
		}
	}
}

func TestTries(t *testing.T) {
	var asked [][]string
	r := tries(3, nil, func(without []string) record {
		asked = append(asked, append([]string{}, without...))
		if len(without) < 2 {
			return record{stalled: []string{"a", "b"}[len(without)], broken: "no progress"}
		}
		return record{outcomes: []outcome{{"c", passed, ""}}}
	})
	if want := [][]string{{}, {"a"}, {"a", "b"}}; !reflect.DeepEqual(asked, want) {
		t.Errorf("left out %q, want %q", asked, want)
	}
	if r.count(passed) != 1 || r.count(stalled) != 2 {
		t.Errorf("%+v", r)
	}
	asked = nil
	r = tries(1, []string{"x"}, func(without []string) record {
		asked = append(asked, append([]string{}, without...))
		return record{}
	})
	if want := [][]string{{"x"}}; !reflect.DeepEqual(asked, want) || r.count(stalled) != 1 {
		t.Errorf("left out %q, want %q; %+v", asked, want, r)
	}
	runs := 0
	if r := tries(2, nil, func([]string) record { runs++; return record{stalled: "a"} }); runs != 2 ||
		r.count(stalled) != 2 {
		t.Errorf("%d runs of a file that always stalls: %+v", runs, r)
	}
}
