package terminal

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"unicode"
	"unicode/utf16"
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
		if r == '\n' || unicode.IsPrint(r) {
			safe.WriteRune(r)
			continue
		}
		for _, half := range utf16.Encode([]rune{r}) { // JSON has no escape for the long ones but two halves
			fmt.Fprintf(&safe, `\u%04x`, half)
		}
	}
	_, err := w.Write(safe.Bytes())
	return err
}
