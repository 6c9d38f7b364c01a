package checkup

import (
	"fmt"
	"io"
	"strings"

	"lockproxy/cmd/lockproxy/tool/terminal"
)

// Report shows facts: a line for each, or itself as JSON at the End, since ok stands in front there. It is
// used by one goroutine.
type Report struct {
	to            io.Writer
	json          bool
	marks, colors bool   // signs in place of words, which a terminal shows; ANSI
	err           error  // of writing
	OK            bool   `json:"ok"` // no fact says fail
	Facts         []Fact `json:"facts"`
}

// NewReport writes to w, with colors at a terminal that may have them.
func NewReport(w io.Writer, asJSON, colors bool) *Report {
	return &Report{to: w, json: asJSON, marks: terminal.Is(w), colors: colors, OK: true, Facts: []Fact{}}
}

var (
	// by Level
	factMarks  = [...]string{"✓", "!", "✗"}
	factColors = [...]string{"\x1b[32m", "\x1b[33m", "\x1b[31m"}
)

// Tell takes a fact.
func (r *Report) Tell(f Fact) {
	r.OK = r.OK && f.Level != Fail
	if r.Facts = append(r.Facts, f); r.json {
		return
	}
	// A file, or a program that reads it, gets words and no signs.
	mark := fmt.Sprintf("%-4s", f.Level)
	if r.marks {
		mark = factMarks[f.Level]
	}
	if r.colors {
		mark = factColors[f.Level] + mark + "\x1b[0m"
	}
	line := fmt.Sprintf("%s %-11s ", mark, f.About)
	if f.Node != "" {
		line += terminal.Safe(f.Node) + " "
	}
	line += terminal.Safe(f.Text)
	if f.Remedy != "" {
		if !strings.HasSuffix(line, ".") && !strings.HasSuffix(line, "?") {
			line += "."
		}
		line += " Remedy: " + terminal.Safe(f.Remedy)
	}
	if _, err := fmt.Fprintln(r.to, line); err != nil && r.err == nil {
		r.err = err
	}
}

// End is called once all are told. Its error is that of writing.
func (r *Report) End() error {
	if r.json {
		return terminal.WriteJSON(r.to, r, "  ")
	}
	return r.err
}
