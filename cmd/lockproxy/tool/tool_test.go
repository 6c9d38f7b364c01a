package tool

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"lockproxy/cmd/lockproxy/kind"
)

// values are the flags of the subcommand of these tests.
type values struct {
	wait  time.Duration
	name  string
	n     int
	mode  string
	quiet bool
}

// program has one subcommand, try, which says with what it runs.
func (v *values) program(use string, settings bool) *cobra.Command {
	*v = values{wait: time.Second, mode: "soft"}
	c := Command(&cobra.Command{Use: use}, 1, 1, func(c *Invocation) int {
		fmt.Fprintf(c.Stdout, "%q %q %q", c.Operands, c.Command, c.Settings)
		return 7
	})
	if settings {
		c = TakesSettings(Command(c, 0, 0, func(c *Invocation) int {
			fmt.Fprintf(c.Stdout, "%q %q %q", c.Operands, c.Command, c.Settings)
			return 7
		}))
	}
	f := c.Flags()
	f.Var(kind.Time(&v.wait, 0, time.Hour), "wait", "how long to wait")
	Or(f, "wait", "TRY_WAIT", "OLD_WAIT")
	f.Var(kind.Text(&v.name, "TEXT", "any text"), "name", "a name")
	f.Var(kind.Number(&v.n, 1, 9), "n", "a number")
	f.Var(kind.OneOf(&v.mode, "soft", "hard"), "mode", "how hard to try")
	Yes(f, &v.quiet, "quiet", "say nothing")
	Or(f, "quiet", "TRY_QUIET")
	return Root(&cobra.Command{Use: "lockproxy"}, c)
}

func TestCalls(t *testing.T) {
	const plain, runs = "try NAME", "try NAME -- COMMAND"
	for _, test := range []struct {
		use  string
		args string
		env  string
		want string // what runs says, with the values; or the error
	}{
		{plain, "a", "", `["a"] [] [] {1s  0 soft false}`},
		{plain, "--wait 2m a --name=x=y --n 3 --mode hard --quiet", "", `["a"] [] [] {2m0s x=y 3 hard true}`},
		{plain, "a", "TRY_WAIT=3s TRY_QUIET=yes", `["a"] [] [] {3s  0 soft true}`},
		{plain, "a --quiet=no --wait 4s", "TRY_WAIT=3s TRY_QUIET=yes", `["a"] [] [] {4s  0 soft false}`},
		{plain, "a", "OLD_WAIT=3s TRY_WAIT=", `["a"] [] [] {3s  0 soft false}`},
		{plain, "-- --a", "", `["--a"] [] [] {1s  0 soft false}`},
		{plain, "-", "", `["-"] [] [] {1s  0 soft false}`},
		{runs, "a -- ls --wait", "", `["a"] ["ls" "--wait"] [] {1s  0 soft false}`},
		{runs, "a -- --help", "", `["a"] ["--help"] [] {1s  0 soft false}`},
		{"try", "--quiet --loops 3 --dev", "", `[] [] ["--loops" "3" "--dev"] {1s  0 soft true}`},
		{"try", "--dev no --wait 2s x", "", `[] [] ["--dev" "no" "x"] {2s  0 soft false}`},

		{plain, "", "", "NAME is missing: lockproxy try NAME"},
		{plain, "a b", "", "b: nothing is expected here"},
		{plain, "a --nane x", "", "unknown flag: --nane; did you mean --name?"},
		{plain, "a --qiuet", "", "did you mean --quiet?"},
		{plain, "a --other x", "", "unknown flag: --other\n"},
		{plain, "a -q", "", "unknown shorthand flag: 'q' in -q"},
		{plain, "a --wait", "", "flag needs an argument: --wait"},
		{plain, "a --wait 30", "", "needs a unit: 30s or 30ms"},
		{plain, "a --wait soon", "", "must be a duration, such as 30s"},
		{plain, "a --wait 2h", "", "must be between 0s and 1h"},
		{plain, "a --n 0", "", "must be between 1 and 9 inclusive"},
		{plain, "a --mode loud", "", "must be one of the following: soft, hard"},
		{plain, "a --quiet=x", "", "must be 'yes' or 'no'"},
		{plain, "a", "TRY_WAIT=30", "TRY_WAIT needs a unit"},
		{runs, "--wait 5m -- ls", "", "NAME is missing: "},
		{runs, "a ls", "", "ls: write -- before the command"},
		{runs, "a --", "", "the command is missing"},
		{runs, "a", "", "the command is missing"},
	} {
		var v values
		var stdout, stderr strings.Builder
		root := v.program(test.use, test.use == "try")
		code := Execute(root, append([]string{"try"}, strings.Fields(test.args)...),
			Invocation{Environ: strings.Fields(test.env), Stdout: &stdout, Stderr: &stderr})
		got := fmt.Sprintf("%s {%v %s %d %s %v}", stdout.String(), v.wait, v.name, v.n, v.mode, v.quiet)
		if code == ExitUsage {
			got = stderr.String()
		}
		if !strings.Contains(got, test.want) || code != 7 && code != ExitUsage {
			t.Errorf("%s %s: %d %s, not %s", test.env, test.args, code, got, test.want)
		}
	}
	var v values
	all := Variables(v.program(plain, false))
	if !slices.Equal(all, []string{"OLD_WAIT", "TRY_QUIET", "TRY_WAIT"}) {
		t.Errorf("%q", all)
	}
}
