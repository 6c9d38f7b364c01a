package settings

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"lockproxy/cmd/lockproxy/tool"
)

const helpTop = `lockproxy [--setting value]...   Redis for any client in front of a cluster, with lock verbs
lockproxy NAME --help            %s
Each setting, here with its default, is also a variable (LOCKPROXY_LOCK_LEASE=30s) and a line of
--config (lock-lease 30s). A flag wins over a variable, that over the file. * CONFIG SET changes it.

`

// WriteHelp prints what fits on one screen: every setting with its default. tools are the names of the
// subcommands.
func WriteHelp(w io.Writer, tools []string) {
	fmt.Fprintf(w, helpTop, strings.Join(tools, " "))
	group, standard := "", Defaults()
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
	standard := Defaults()
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

// ForTools are the settings as completion and the manual page tell of them.
func ForTools() (all []tool.Setting) {
	standard := Defaults()
	for i := range settings {
		s := &settings[i]
		all = append(all, tool.Setting{Name: s.Name, Group: s.Group, Help: cmp.Or(s.Page, s.Help),
			Default: s.standard(standard), Allowed: s.allowed(), Words: s.words(),
			Files: strings.HasPrefix(s.allowed(), "a file") || strings.HasPrefix(s.allowed(), "a PEM file"),
			Yes:   s.boolean()})
	}
	return all
}

// words are the values of a setting, if they are few.
func (s *Setting) words() []string {
	if s.boolean() {
		return []string{"yes", "no"}
	}
	if few, ok := s.in(new(Values)).(interface{ words() []string }); ok {
		return few.words()
	}
	return nil
}
