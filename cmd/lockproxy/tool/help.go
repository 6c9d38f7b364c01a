package tool

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// width is how many columns help has.
const width = 100

// Help prints what there is to know of the subcommand.
func (m *Command) Help(w io.Writer) {
	fmt.Fprintf(w, "%s\n    %s.\n", m.Usage(), m.Summary)
	for _, paragraph := range m.paragraphs() {
		fmt.Fprint(w, "\n", columns(0, "", paragraph))
	}
	group := ""
	for i, f := range m.Flags() {
		if i == 0 || f.Group != group {
			group = f.Group
			fmt.Fprintf(w, "\n%s:\n", heading(group))
		}
		fmt.Fprint(w, columns(left, "  "+f.spelled(), f.explained()))
	}
	if m.Settings {
		fmt.Fprintf(w, "\nSettings of the proxy are flags too: lockproxy --help lists them.\n")
	}
	for i, v := range m.Gives {
		if i == 0 {
			fmt.Fprintf(w, "\nVariables of the command:\n")
		}
		fmt.Fprint(w, columns(left, "  "+v.Name, v.Meaning))
	}
	fmt.Fprintf(w, "\nExamples:\n")
	for _, e := range m.Examples {
		fmt.Fprintf(w, "  %s\n        %s\n", e.Line, e.What)
	}
	fmt.Fprintf(w, "\nExit codes:\n")
	for _, e := range m.exits() {
		fmt.Fprint(w, columns(exitLeft, fmt.Sprintf("%5d", e.Code), e.Meaning))
	}
}

func heading(group string) string {
	if group == "" {
		return "Flags"
	}
	return group
}

// exits are all exit codes of the subcommand, in order. What the row says of a code counts.
func (m *Command) exits() []Exit {
	all := slices.Concat(m.Exits, common)
	slices.SortStableFunc(all, func(a, b Exit) int { return a.Code - b.Code })
	return slices.CompactFunc(all, func(a, b Exit) bool { return a.Code == b.Code })
}

// spelled is the flag as it is written: --wait TIME.
func (f *Flag) spelled() string {
	return strings.TrimSpace("--" + f.Name + " " + f.Value)
}

// explained is its help with what is allowed, its default and its variables.
func (f *Flag) explained() string {
	var more []string
	if len(f.Words) > 0 {
		more = append(more, strings.Join(f.Words, ", "))
	}
	if f.Default != "" {
		more = append(more, "default "+f.Default)
	}
	more = append(more, f.variables...)
	if len(more) == 0 {
		return f.Help
	}
	return f.Help + " (" + strings.Join(more, "; ") + ")"
}

// Widths of the first of two columns.
const (
	left     = 28
	exitLeft = 8
)

// columns is first, and from a column on second, which is broken where it is too long.
func columns(at int, first, second string) string {
	var b strings.Builder
	line := fmt.Sprintf("%-*s", at, first)
	for _, word := range strings.Fields(second) {
		switch {
		case len(line) <= at:
			line += word
		case len(line)+1+len(word) > width:
			b.WriteString(line + "\n")
			line = strings.Repeat(" ", at) + word
		default:
			line += " " + word
		}
	}
	return b.String() + line + "\n"
}

// paragraphs are those of About, each on one line.
func (m *Command) paragraphs() []string {
	var all []string
	for _, p := range strings.Split(m.About, "\n\n") {
		if words := strings.Fields(p); len(words) > 0 {
			all = append(all, strings.Join(words, " "))
		}
	}
	return all
}
