package locks

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"lockproxy/cmd/lockproxy/tool"
	"lockproxy/cmd/lockproxy/tool/terminal"
)

// tableRow is a line of the table. Its cells are safe to print.
type tableRow [6]string

// heads are the headings. Numbers begin with the fourth.
var heads = tableRow{"NAME", "STATE", "HOLDER", "SINCE", "TTL", "WAITERS"}

// longestHolder is how many columns a holder may take.
const longestHolder = 40

// printLocks prints the list.
func (a *locksFlags) printLocks(c *tool.Invocation, all []Lock) int {
	// told on standard error, so that it is not taken for a lock
	if len(all) == most {
		fmt.Fprintf(c.Stderr, "lockproxy locks: these are %d, and there may be more: give a pattern\n", most)
	}
	// A file gets whole lines, however long.
	width := 0
	if terminal.Is(c.Stdout) {
		width, _ = terminal.Size(c.Stdout)
	}
	var err error
	if a.json {
		err = terminal.WriteJSON(c.Stdout, all, "  ")
	} else {
		_, err = io.WriteString(c.Stdout, table(all, width))
	}
	if err != nil {
		return c.Fail(tool.ExitSoftware, err)
	}
	return tool.ExitOK
}

// table is all locks, a line each, below a line of headings. Lines have at most width columns; 0: any number.
func table(all []Lock, width int) string {
	rows := make([]tableRow, 0, 1+len(all))
	rows = append(rows, heads)
	for i := range all {
		rows = append(rows, all[i].row())
	}
	// in columns, of which each rune counts as one
	var wide [len(tableRow{})]int
	for _, r := range rows {
		for i, cell := range r {
			wide[i] = max(wide[i], utf8.RuneCountInString(cell))
		}
	}
	if width > 0 {
		others := 0
		for _, w := range wide[1:] {
			others += 2 + w
		}
		// Names give way first: the other columns are short.
		wide[0] = min(wide[0], max(width-others, len(heads[0])+4))
	}
	var b strings.Builder
	for _, r := range rows {
		b.WriteString(r.line(wide, width) + "\n")
	}
	return b.String()
}

// line is the row with cells as wide as that. width is that of the terminal, 0: any; the last cut is for a
// line that is too wide all the same.
func (r tableRow) line(wide [len(tableRow{})]int, width int) string {
	var b strings.Builder
	for i, cell := range r {
		cell = terminal.Cut(cell, wide[i])
		space := strings.Repeat(" ", wide[i]-utf8.RuneCountInString(cell))
		if i < 3 { // words, else numbers
			b.WriteString(cell + space + "  ")
		} else {
			b.WriteString(space + cell + "  ")
		}
	}
	line := strings.TrimRight(b.String(), " ")
	if width > 0 {
		line = terminal.Cut(line, width)
	}
	return line
}

// row is the line of a lock: its first holder stands for all, with the number of the others.
func (l *Lock) row() tableRow {
	r := tableRow{terminal.Safe(l.Name), l.state(), "", "", "", strconv.FormatInt(l.Waiters, 10)}
	if len(l.Holders) > 0 {
		first := l.Holders[0]
		r[2] = terminal.Cut(terminal.Safe(first.short()), longestHolder)
		if n := len(l.Holders) - 1; n > 0 {
			r[2] += fmt.Sprintf(" +%d", n)
		}
		r[3], r[4] = brief(first.Age), brief(first.TTL)
	}
	return r
}

// state is the state, with the permits of a semaphore.
func (l *Lock) state() string {
	switch {
	case l.Used > 0:
		return fmt.Sprintf("permits %d/%d", l.Used, l.Of)
	case l.State == "resting":
		return "resting " + brief(l.Rest)
	}
	return terminal.Safe(l.State)
}

// short is the client, or the digest of its token where it is not known.
func (h *ShownHolder) short() string {
	if who := strings.TrimSpace(h.Client + " " + h.Addr); who != "" {
		return who
	}
	return "token " + h.Token
}

// brief is a time of ms with two units at most.
func brief(ms int64) string {
	d := time.Duration(ms) * time.Millisecond
	if d >= 10*time.Second {
		d = d.Round(time.Second)
	}
	switch {
	case d < time.Second:
		return strconv.FormatInt(ms, 10) + "ms"
	case d < 10*time.Second:
		return d.Round(100 * time.Millisecond).String()
	case d < time.Minute:
		return d.String()
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%dd%02dh", int(d.Hours())/24, int(d.Hours())%24)
}
