package main

import (
	"cmp"
	"fmt"
	"io"
	"strings"
)

const helpTop = `lockproxy [--setting value]...   Redis for any client in front of a cluster, with lock verbs
lockproxy NAME --help            %s
Each setting, here with its default, is also a variable (LOCKPROXY_LOCK_LEASE=30s) and a line of
--config (lock-lease 30s). A flag wins over a variable, that over the file. * CONFIG SET changes it.

`

// writeHelp prints what fits on one screen: every setting with its default.
func writeHelp(w io.Writer) {
	fmt.Fprintf(w, helpTop, strings.Join(subcommands().Names(), " "))
	group, standard := "", defaults()
	for i, s := range settings {
		if s.Joined {
			continue
		}
		heading := s.Group
		if heading == group {
			heading = ""
		}
		group = s.Group
		names := s.inHelp(standard)
		for j := i + 1; j < len(settings) && settings[j].Joined; j++ {
			names += " " + settings[j].inHelp(standard)
		}
		fmt.Fprintf(w, "%-9s%-42s  %s\n", heading, names, s.Help)
	}
}

// longDefault is the length from which on docs/settings.md alone has a default.
const longDefault = 32

// inHelp is the setting as the line of --help has it: with its default, and * if CONFIG SET changes it.
func (s *Setting) inHelp(standard *Values) string {
	text := "--" + s.Name
	switch value := s.standard(standard); {
	case len(value) > longDefault:
		text += "=..."
	case value != "":
		text += "=" + value
	}
	if s.settable() {
		text += "*"
	}
	return text
}

// settingsTable is the table of docs/settings.md.
func settingsTable() string {
	var b strings.Builder
	b.WriteString("| setting | default | allowed | changes | what it is |\n|---|---|---|---|---|\n")
	standard := defaults()
	for _, s := range settings {
		shown := s.standard(standard)
		if shown != "" {
			shown = "`" + strings.ReplaceAll(shown, "|", `\|`) + "`" // a bare one ends the cell
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n",
			s.Name, shown, s.allowed(), s.changes(), cmp.Or(s.Page, s.Help))
	}
	return b.String()
}
