package settings

import (
	"cmp"
	"fmt"
	"io"
	"regexp"
	"strings"

	"github.com/spf13/pflag"

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
		if s.Help == "" {
			continue
		}
		heading := s.Group
		if heading == group {
			heading = ""
		}
		group = s.Group
		names := s.inHelp(standard)
		for j := i + 1; j < len(settings) && settings[j].Help == ""; j++ {
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

// Flags declares the settings, as completion and the manual page tell of them.
func Flags(f *pflag.FlagSet) {
	f.SortFlags = false
	standard := Defaults()
	for i := range settings {
		s := &settings[i]
		kind := "VALUE"
		switch allowed := s.allowed(); {
		case s.boolean():
			kind = "yes|no"
		case strings.HasPrefix(allowed, "a file"), strings.HasPrefix(allowed, "a PEM file"):
			kind = tool.FILE
		}
		help := plain(cmp.Or(s.Page, s.Help)) + "; allowed: " + plain(s.allowed())
		flag := f.VarPF(tool.Known(kind, s.standard(standard), s.words()), s.Name, "", help)
		if s.boolean() {
			flag.NoOptDefVal = "yes"
		}
		f.SetAnnotation(s.Name, tool.Heading, []string{s.Group})
	}
}

var link = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)

// plain is Markdown without its marks.
func plain(s string) string {
	return strings.NewReplacer("`", "", `\|`, "|").Replace(link.ReplaceAllString(s, "$1"))
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
