package rig

import "strings"

// LineField is the value of a name in a line of CLIENT LIST.
func LineField(line, name string) string {
	_, rest, _ := strings.Cut(" "+line, " "+name+"=")
	value, _, _ := strings.Cut(rest, " ")
	return strings.TrimSpace(value)
}

// LinesOf are the lines of a text.
func LinesOf(text string) []string { return strings.Split(strings.TrimSuffix(text, "\n"), "\n") }
