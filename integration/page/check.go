package page

import (
	"encoding/xml"
	"io"
	"os"
	"strings"
	"testing"
)

// CheckSVG has t fail unless the file at path is well-formed XML in which each number is one.
func CheckSVG(t testing.TB, path string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(text), "NaN") || strings.Contains(string(text), "Inf") {
		t.Errorf("%s: not a number:\n%s", path, text)
	}
	d := xml.NewDecoder(strings.NewReader(string(text)))
	for {
		if _, err := d.Token(); err == io.EOF {
			return
		} else if err != nil {
			t.Fatalf("%s: %v\n%s", path, err, text)
		}
	}
}
