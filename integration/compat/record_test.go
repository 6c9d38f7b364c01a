package compat

import (
	"reflect"
	"strings"
	"testing"
)

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
	got := Parse(whole)
	type short struct {
		name   string
		status Status
		detail string
	}
	want := []short{
		{"MGET", OK, ""},
		{"MGET #2", OK, ""},
		{`a [name]: with (odd) "things" [ok]: inside (12 ms)`, OK, ""},
		{"two\nlines", OK, ""},
		{"talks on", OK, ""},
		{"LATENCY: Tag: needs:latency denied", Skipped, ""},
		{"Not supported on external server", Skipped, ""},
		{"it counts", Failed, "Expected '1' to be equal to '2' (context: type eval"},
		{"MGET #3", Failed, ""},
		{"(outside a test)", Failed, "SELECT 9 is not allowed"},
	}
	var had []short
	for _, o := range got.Outcomes {
		first, _, _ := strings.Cut(o.Detail, "\n")
		had = append(had, short{o.Name, o.Status, first})
	}
	if !reflect.DeepEqual(had, want) || got.Broken != "" || got.Stalled != "" {
		t.Errorf("broken %q, stalled %q\n got %q\nwant %q", got.Broken, got.Stalled, had, want)
	}
	if ok, err, skipped := got.Count(OK), got.Count(Failed), got.Count(Skipped); ok != 5 || err != 3 ||
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
		if r := Parse(tt.log); !strings.Contains(r.Broken, tt.broken) || r.Stalled != tt.stalled {
			t.Errorf("%s: broken %q, stalled %q", tt.name, r.Broken, r.Stalled)
		}
	}
}

func TestTries(t *testing.T) {
	var asked [][]string
	r := Tries(3, nil, func(without []string) Record {
		asked = append(asked, append([]string{}, without...))
		if len(without) < 2 {
			return Record{Stalled: []string{"a", "b"}[len(without)], Broken: "no progress"}
		}
		return Record{Outcomes: []Outcome{{"c", OK, ""}}}
	})
	if want := [][]string{{}, {"a"}, {"a", "b"}}; !reflect.DeepEqual(asked, want) {
		t.Errorf("left out %q, want %q", asked, want)
	}
	if r.Count(OK) != 1 || r.Count(Stalled) != 2 {
		t.Errorf("%+v", r)
	}
	asked = nil
	r = Tries(1, []string{"x"}, func(without []string) Record {
		asked = append(asked, append([]string{}, without...))
		return Record{}
	})
	if want := [][]string{{"x"}}; !reflect.DeepEqual(asked, want) || r.Count(Stalled) != 1 {
		t.Errorf("left out %q, want %q; %+v", asked, want, r)
	}
	runs := 0
	if r := Tries(2, nil, func([]string) Record { runs++; return Record{Stalled: "a"} }); runs != 2 ||
		r.Count(Stalled) != 2 {
		t.Errorf("%d runs of a file that always stalls: %+v", runs, r)
	}
}
