package main

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"lockproxy/cmd/lockproxy/settings"
	"lockproxy/cmd/lockproxy/tool"

	"github.com/spf13/pflag"
)

// Each says all that help and man page tell of it, and its help fits on a terminal.
func TestSubcommandsAreComplete(t *testing.T) {
	for _, m := range rootCommand().Commands() {
		name := m.Name()
		if m.Short == "" || strings.HasSuffix(m.Short, ".") || !strings.Contains(m.Long, "Exit codes:") {
			t.Errorf("%s: lacks something, or its summary ends with a full stop", name)
		}
		if settings.Find(name) != nil {
			t.Errorf("%s is the name of a setting", name)
		}
		var b strings.Builder
		if code := realMain([]string{"help", name}, nil, nil, &b, &b); code != tool.ExitOK {
			t.Errorf("help %s: %d", name, code)
		}
		for line := range strings.Lines(b.String()) {
			if utf8.RuneCountInString(line) > 111 {
				t.Errorf("%s: %d columns: %s", name, len(line)-1, line)
			}
		}
		examples := 0
		for line := range strings.Lines(m.Example) {
			if strings.HasPrefix(line, "  ") && line[2] != ' ' {
				examples++
				if err := accepted(name, strings.TrimSpace(line)); err != nil {
					t.Errorf("%s: %v", line, err)
				}
			}
		}
		if examples == 0 {
			t.Errorf("%s has no example", name)
		}
		m.Flags().VisitAll(func(f *pflag.Flag) {
			if tool.HasSettings(m) && settings.Find(f.Name) != nil {
				t.Errorf("%s --%s is the name of a setting too", name, f.Name)
			}
		})
	}
}

// What help tells has all settings, and fits into a terminal.
func TestHelpTellsTheSettings(t *testing.T) {
	var b strings.Builder
	if code := realMain([]string{"--help"}, nil, nil, &b, &b); code != exitOK {
		t.Errorf("exit code %d", code)
	}
	for line := range strings.Lines(b.String()) {
		if utf8.RuneCountInString(line) > 111 {
			t.Errorf("%d columns: %s", len(line)-1, line)
		}
	}
	for _, part := range []string{
		"--listen LIST ", "(default 127.0.0.1:6380)", "--lock-lease TIME ", "--dev yes|no[=yes] ",
		"CONFIG SET changes it", "  lock  ", "\nlimits:\n",
	} {
		if !strings.Contains(b.String(), part) {
			t.Errorf("it lacks %q", part)
		}
	}
}

// accepted says what is wrong with the words behind lockproxy NAME in a line of a shell.
func accepted(name, line string) error {
	_, line, _ = strings.Cut(line, "lockproxy "+name)
	line, _, _ = strings.Cut(line, "     ") // what it does
	line = regexp.MustCompile(`[;|>&)].*`).ReplaceAllString(line, "")
	words, err := settings.SplitWords(line)
	if err != nil {
		return err
	}
	c, _, err := rootCommand().Find([]string{name})
	if err != nil || tool.HasSettings(c) { // what is no flag of its own is a setting
		return err
	}
	if err := c.ParseFlags(words); err != nil {
		return err
	}
	return c.ValidateArgs(c.Flags().Args())
}

// The proxy leaves the variables of subcommands alone, and no setting has one of them.
func TestVariablesOfSubcommands(t *testing.T) {
	for _, variable := range settingsFrom(nil, nil).Others {
		environ := []string{variable + "=x"}
		if _, err := loaded(nil, environ); err != nil {
			t.Error(err)
		}
		if !strings.HasPrefix(variable, "LOCKPROXY_") {
			continue
		}
		if _, err := (settings.Sources{Environ: environ}).Load(); err == nil ||
			!strings.Contains(err.Error(), "there is no such setting") {
			t.Errorf("%s is the variable of a setting: %v", variable, err)
		}
	}
}

// help is --help; completion prints a script for each shell it knows, and says which they are; a wrong flag
// or
// word is told with what may have been meant.
func TestHelpAndCompletion(t *testing.T) {
	for words, want := range map[string]string{
		"help":               "0 lockproxy [--setting value]...",
		"help lock":          "0 lockproxy lock [--flag value]... NAME",
		"lock --help":        "0 lockproxy lock [--flag value]... NAME",
		"check --dev --help": "0 lockproxy check [--flag value]...",
		"help lokc": "64 lockproxy help: unknown command \"lokc\" for \"lockproxy\"\n\nDid you mean this?\n" +
			"\tlock",
		"help nothing":          "64 lockproxy help: unknown command \"nothing\"",
		"completion bash":       "0 # bash completion",
		"completion sh":         "64 lockproxy completion: which shell: bash, zsh, fish?",
		"man":                   "0 .TH LOCKPROXY 1",
		"lock --wiat 1s a -- b": "64 lockproxy lock: unknown flag: --wiat; did you mean --wait?",
		"lock a b":              "64 lockproxy lock: b: write -- before the command",
		"lock a --":             "64 lockproxy lock: the command is missing",
		"lock":                  "64 lockproxy lock: NAME is missing",
		"lock -- ls":            "64 lockproxy lock: NAME is missing",
		"version x":             "64 lockproxy version: x: nothing is expected here",
		"bench --only x": "64 lockproxy bench: invalid argument \"x\" for \"--only\" flag: " +
			"must be one of",
		"__complete ver":              "0 version\t",
		"__complete lock --ca":        "0 --cacert\t",
		"__complete lock --cacert _":  "0 :0",
		"__complete lock --wait _":    "0 :4",
		"__complete lock --tls-ca":    "0 :4",
		"__complete ready --admin-ho": "0 --admin-hosts\t",
		"__complete --client-auth=p":  "0 proxy\nupstream\n:4",
		"__complete --config _":       "0 :0",
		"__complete help ver":         "0 version\n",
		"__complete completion _":     "0 bash\nzsh\nfish\n:4",
		"__complete locks _":          "0 info\nbreak\n:4",
	} {
		var stdout, stderr strings.Builder
		all := strings.Fields(words)
		if last := len(all) - 1; all[last] == "_" { // nothing is typed yet
			all[last] = ""
		}
		code := realMain(all, nil, nil, &stdout, &stderr)
		number, text, _ := strings.Cut(want, " ")
		said := stdout.String() + stderr.String()
		if !strings.HasPrefix(said, text) || fmt.Sprint(code) != number {
			t.Errorf("%s: %d %.200q", words, code, said)
		}
	}
}

// What is no subcommand is taken as it was before there were any.
func TestSettingsStandWithoutASubcommand(t *testing.T) {
	for _, args := range [][]string{{}, {"--dev"}, {"--config", "ready"}, {"proxy.conf"}, {"Ready"}} {
		if _, ok := subcommand(args, nil, nil, nil, nil); ok {
			t.Errorf("%q is taken for a subcommand", args)
		}
	}
	_, err := loaded([]string{"proxy.conf"}, nil)
	if err == nil || !strings.Contains(err.Error(), "nor a subcommand") {
		t.Errorf("%v", err)
	}
}
