package checkup

import (
	"fmt"
	"io"
	"strings"

	"lockproxy/cmd/lockproxy/tool/terminal"
)

// Report shows facts. Tell is called on one goroutine. An error of writing is kept until End.
type Report interface {
	Tell(Fact)
	// End is called once all are told.
	End() error
}

// NewReport writes to w: JSON, or a line for each fact, with colors at a terminal that may have them.
func NewReport(w io.Writer, asJSON, colors bool) Report {
	if asJSON {
		return &jsonReport{to: w, OK: true, Facts: []Fact{}}
	}
	return &lineReport{to: w, marks: terminal.Is(w), colors: colors}
}

// lineReport writes a fact a line. marks are signs in place of words, which a terminal shows; colors are
// ANSI.
type lineReport struct {
	to            io.Writer
	marks, colors bool
	err           error
}

var (
	// by Level
	factMarks  = [...]string{"✓", "!", "✗"}
	factColors = [...]string{"\x1b[32m", "\x1b[33m", "\x1b[31m"}
)

func (r *lineReport) Tell(f Fact) {
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

func (r *lineReport) End() error { return r.err }

// jsonReport writes all facts as one object. Nothing is written before End, since ok stands in front.
type jsonReport struct {
	to    io.Writer
	OK    bool   `json:"ok"`
	Facts []Fact `json:"facts"`
}

func (r *jsonReport) Tell(f Fact) {
	r.OK = r.OK && f.Level != Fail
	r.Facts = append(r.Facts, f)
}

func (r *jsonReport) End() error { return terminal.WriteJSON(r.to, r, "  ") }
