package tool

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// values are the flags of the subcommand of these tests.
type values struct {
	wait  time.Duration
	name  string
	n     int
	mode  string
	quiet bool
}

func (v *values) command(change func(*Command)) *Command {
	m := &Command{Name: "try", Summary: "Tries", Operands: "NAME", Least: 1, Most: 1,
		Setup: func(f *Flags) func(*Call) int {
			*v = values{wait: time.Second, mode: "soft"}
			f.Duration(&v.wait, "wait", 0, time.Hour, "how long to wait").Or("TRY_WAIT", "OLD_WAIT")
			f.Text(&v.name, "name", "TEXT", "a name")
			f.Number(&v.n, "n", "N", 1, 9, "a number")
			f.OneOf(&v.mode, "mode", "MODE", []string{"soft", "hard"}, "how hard to try")
			f.Yes(&v.quiet, "quiet", "say nothing").Or("TRY_QUIET")
			return func(c *Call) int {
				fmt.Fprintf(c.Stdout, "%q %q %q", c.Operands, c.Command, c.Settings)
				return 7
			}
		}}
	if change != nil {
		change(m)
	}
	return m
}

func TestRead(t *testing.T) {
	runs := func(m *Command) { m.Runs = true }
	takes := func(m *Command) { m.Settings, m.Least, m.Most = true, 0, 0 }
	for _, test := range []struct {
		change func(*Command)
		args   string
		env    string
		want   string // what runs says, with the values; or the error
	}{
		{nil, "a", "", `["a"] [] [] {1s  0 soft false}`},
		{nil, "--wait 2m a --name=x=y --n 3 --mode hard --quiet", "", `["a"] [] [] {2m0s x=y 3 hard true}`},
		{nil, "a", "TRY_WAIT=3s TRY_QUIET=yes", `["a"] [] [] {3s  0 soft true}`},
		{nil, "a --quiet=no --wait 4s", "TRY_WAIT=3s TRY_QUIET=yes", `["a"] [] [] {4s  0 soft false}`},
		{nil, "a", "OLD_WAIT=3s TRY_WAIT=", `["a"] [] [] {3s  0 soft false}`},
		{nil, "-- --a", "", `["--a"] [] [] {1s  0 soft false}`},
		{nil, "-", "", `["-"] [] [] {1s  0 soft false}`},
		{runs, "a -- ls --wait", "", `["a"] ["ls" "--wait"] [] {1s  0 soft false}`},
		{runs, "a -- --help", "", `["a"] ["--help"] [] {1s  0 soft false}`},
		{takes, "--quiet --loops 3 --dev", "", `[] [] ["--loops" "3" "--dev"] {1s  0 soft true}`},

		{nil, "", "", "NAME is missing: lockproxy try [--flag value]... NAME"},
		{nil, "a b", "", "b: nothing is expected here"},
		{nil, "a --nane x", "", "--nane: there is no such flag; did you mean --name?"},
		{nil, "a --qiuet", "", "did you mean --quiet?"},
		{nil, "a --other x", "", "--other: there is no such flag\n"},
		{nil, "a -q", "", "-q: flags are written --name VALUE"},
		{nil, "a --wait", "", "--wait: needs a value: --wait TIME"},
		{nil, "a --wait 30", "", "--wait needs a unit: 30s or 30ms"},
		{nil, "a --wait soon", "", "--wait must be a time, such as 30s"},
		{nil, "a --wait 2h", "", "--wait must be between 0s and 1h"},
		{nil, "a --n 0", "", "--n must be a number of 1 to 9"},
		{nil, "a --mode loud", "", "--mode must be one of soft, hard"},
		{nil, "a --quiet=x", "", "--quiet must be yes or no"},
		{nil, "a", "TRY_WAIT=30", "TRY_WAIT needs a unit"},
		{runs, "--wait 5m -- ls", "", "NAME is missing: "},
		{runs, "a ls", "", "ls: write -- before the command"},
		{runs, "a --", "", "the command is missing"},
		{runs, "a", "", "the command is missing"},
	} {
		var v values
		var stdout, stderr strings.Builder
		code := v.command(test.change).Do(strings.Fields(test.args),
			Call{Environ: strings.Fields(test.env), Stdout: &stdout, Stderr: &stderr})
		got := fmt.Sprintf("%s {%v %s %d %s %v}", stdout.String(), v.wait, v.name, v.n, v.mode, v.quiet)
		if code == ExitUsage {
			got = stderr.String()
		}
		if !strings.Contains(got, test.want) || code != 7 && code != ExitUsage {
			t.Errorf("%s %s: %d %s, not %s", test.env, test.args, code, got, test.want)
		}
	}
}

func TestHelp(t *testing.T) {
	var v values
	m := v.command(func(m *Command) {
		m.About = "One\nparagraph.\n\nAnother."
		m.Exits = []Exit{{7, "seven"}}
		m.Examples = []Example{{"lockproxy try a", "tries a"}}
	})
	var b strings.Builder
	if code := m.Do([]string{"a", "--help"}, Call{Stdout: &b}); code != ExitOK {
		t.Errorf("exit code %d", code)
	}
	want := `lockproxy try [--flag value]... NAME
    Tries.

One paragraph.

Another.

Flags:
  --wait TIME               how long to wait (default 1s; TRY_WAIT; OLD_WAIT)
  --name TEXT               a name
  --n N                     a number
  --mode MODE               how hard to try (soft, hard; default soft)
  --quiet                   say nothing (TRY_QUIET)

Examples:
  lockproxy try a
        tries a

Exit codes:
    7   seven
   64   the command line or a variable is wrong
`
	if b.String() != want {
		t.Errorf("%s", b.String())
	}
	all := Table{m}
	if all.Find("try") != m || all.Find("tr") != nil ||
		!slices.Equal(all.Variables(), []string{"OLD_WAIT", "TRY_QUIET", "TRY_WAIT"}) {
		t.Errorf("%q", all.Variables())
	}
}
