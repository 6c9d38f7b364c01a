package main

import (
	"regexp"
	"strings"
	"testing"

	"lockproxy/cmd/lockproxy/settings"
	"lockproxy/cmd/lockproxy/tool"
)

// Each row says all that help, completion and man page tell of it, and its help fits on a terminal.
func TestSubcommandsAreComplete(t *testing.T) {
	for _, m := range subcommands() {
		if m.Summary == "" || strings.HasSuffix(m.Summary, ".") || len(m.Examples) == 0 || len(m.Exits) == 0 {
			t.Errorf("%s: lacks something, or its summary ends with a full stop", m.Name)
		}
		if settings.Find(m.Name) != nil {
			t.Errorf("%s is the name of a setting", m.Name)
		}
		var b strings.Builder
		m.Help(&b)
		for line := range strings.Lines(b.String()) {
			if len(line) > 101 {
				t.Errorf("%s: %d columns: %s", m.Name, len(line)-1, line)
			}
		}
		for _, e := range m.Examples {
			if err := accepted(m, e.Line); err != nil {
				t.Errorf("%s: %v", e.Line, err)
			}
		}
		if m.Settings {
			for _, f := range m.Flags() {
				if settings.Find(f.Name) != nil {
					t.Errorf("%s --%s is the name of a setting too", m.Name, f.Name)
				}
			}
		}
	}
}

// accepted says what is wrong with the words behind lockproxy NAME in a line of a shell.
func accepted(m *tool.Command, line string) error {
	_, line, _ = strings.Cut(line, "lockproxy "+m.Name)
	line = regexp.MustCompile(`[;|>&].*`).ReplaceAllString(line, "")
	words, err := settings.SplitWords(line)
	if err != nil {
		return err
	}
	return m.Accepts(words)
}

// The proxy leaves the variables of subcommands alone, and no setting has one of them.
func TestVariablesOfSubcommands(t *testing.T) {
	for _, variable := range subcommands().Variables() {
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
