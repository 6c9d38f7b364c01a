package terminal

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"unicode"
)

// WriteJSON writes v and a line feed; indent is that of lines within it, "" for a single line. What cannot be
// printed is escaped: it may go to a terminal.
func WriteJSON(w io.Writer, v any, indent string) error {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	// it is for terminals and programs, where \u003c would be odd
	e.SetEscapeHTML(false)
	e.SetIndent("", indent)
	if err := e.Encode(v); err != nil {
		return err
	}
	var safe bytes.Buffer
	for _, r := range b.String() {
		switch {
		case r == '\n' || unicode.IsPrint(r):
			safe.WriteRune(r)
		// JSON has no escape for these but two halves (UTF-16 surrogates).
		case r > 0xffff:
			r -= 0x10000
			fmt.Fprintf(&safe, `\u%04x\u%04x`, 0xd800+r>>10, 0xdc00+r&0x3ff)
		default:
			fmt.Fprintf(&safe, `\u%04x`, r)
		}
	}
	_, err := w.Write(safe.Bytes())
	return err
}
