// Package terminal is what subcommands know of where they write: whether people read it there as it comes,
// and how wide it is. What others have named, such as a lock, goes there through Safe alone.
package terminal

import (
	"io"
	"os"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"lockproxy/cmd/lockproxy/tool"
)

// Standard size of a terminal that does not tell its own.
const (
	columns = 80
	rows    = 24
)

// Is says whether a Reader or Writer is a terminal. Nothing but an *os.File can be one.
func Is(stream any) bool {
	f, ok := stream.(*os.File)
	if !ok {
		return false
	}
	_, _, ok = size(f)
	return ok
}

// Size is how many columns and rows w has.
func Size(w io.Writer) (width, height int) {
	if f, ok := w.(*os.File); ok {
		if width, height, ok := size(f); ok && width > 0 && height > 0 {
			return width, height
		}
	}
	return columns, rows
}

// Colors says whether colors may be written to w (no-color.org). TERM is dumb in editors that show what is
// written as it stands.
func Colors(w io.Writer, environ []string) bool {
	return Is(w) && tool.Lookup(environ, "NO_COLOR") == "" && tool.Lookup(environ, "TERM") != "dumb"
}

// Safe is text with nothing that could do more in a terminal than be read: control characters, marks that
// turn the direction of text, and bytes that are no UTF-8 become \x1b or \u202e, and a backslash a pair.
// Since a backslash is doubled, two names are never written alike.
func Safe(text string) string {
	quoted := strconv.Quote(text)
	return strings.ReplaceAll(quoted[1:len(quoted)-1], `\"`, `"`)
}

// Cut is text in at most width columns; its end is … then. Each rune counts as one column.
func Cut(text string, width int) string {
	if utf8.RuneCountInString(text) <= width {
		return text
	}
	all := []rune(text)
	return string(all[:max(width-1, 0)]) + "…"
}

// Brief is a time with about three digits. It is for lengths that were measured: 1.23ms, 12.3ms, 1.23s.
func Brief(d time.Duration) string {
	for unit := time.Second; unit >= time.Millisecond; unit /= 1000 {
		if d >= unit {
			digits := unit / 100
			for d >= 1000*digits && digits < unit {
				digits *= 10
			}
			return d.Round(digits).String()
		}
	}
	return d.Round(time.Microsecond).String()
}
