package adminpage

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// How many runes are shown.
const (
	mostName   = 256 // of the name of a lock
	mostText   = 128 // of a name, an address, a user, META
	mostReason = 1000
)

// printable is text as it may be shown: what cannot be printed, or turns the direction of what follows, is
// written as its number, and what is long is cut.
func printable(text string, most int) string {
	var b strings.Builder
	n := 0
	for i, c := range text {
		if n++; n > most {
			b.WriteString("…")
			break
		}
		switch {
		case c == utf8.RuneError && !strings.HasPrefix(text[i:], "\uFFFD"):
			fmt.Fprintf(&b, `\x%02x`, text[i])
		case unicode.IsPrint(c):
			b.WriteRune(c)
		case c < 0x100:
			fmt.Fprintf(&b, `\x%02x`, c)
		default:
			fmt.Fprintf(&b, `\u%04x`, c)
		}
	}
	return b.String()
}
