package terminal

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"
	"unicode"
)

func TestSafe(t *testing.T) {
	for text, want := range map[string]string{
		"order:42":                  "order:42",
		"Straße 東京":                 "Straße 東京",
		"":                          "",
		"a\x1b[2Jb":                 `a\x1b[2Jb`,
		"a\r\nb\x00\x07":            `a\r\nb\x00\a`,
		"\u009b31m":                 `\u009b31m`,
		"abc\u202edcb":              `abc\u202edcb`,
		"\xff\xfe":                  `\xff\xfe`,
		`a\x1b`:                     `a\\x1b`,
		"\ufffd":                    "\ufffd",
		`a"b\"c`:                    `a"b\\"c`,
		"a b":                       "a b",
		"a\u00a0b\u200bc\U000e0001": `a\u00a0b\u200bc\U000e0001`,
	} {
		if got := Safe(text); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}

// Nothing that Safe returns does anything in a terminal, and two texts are never shown as one.
func FuzzSafe(f *testing.F) {
	f.Add("a\x1b[31m", "a\\x1b[31m")
	f.Fuzz(func(t *testing.T, a, b string) {
		if i := strings.IndexFunc(Safe(a), func(r rune) bool { return !unicode.IsPrint(r) }); i >= 0 {
			t.Errorf("%q: %q", a, Safe(a))
		}
		if a != b && Safe(a) == Safe(b) {
			t.Errorf("%q and %q: %s", a, b, Safe(a))
		}
	})
}

func TestCut(t *testing.T) {
	for _, c := range []struct {
		text  string
		width int
		want  string
	}{{"abc", 3, "abc"}, {"abcd", 3, "ab…"}, {"äöüß", 3, "äö…"}, {"abc", 0, "…"}} {
		if got := Cut(c.text, c.width); got != c.want {
			t.Errorf("%q in %d: %q", c.text, c.width, got)
		}
	}
}

func TestNoTerminal(t *testing.T) {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	if Is(null) || Is(new(strings.Builder)) {
		t.Error("no terminal is taken for one")
	}
	if w, h := Size(null); w != columns || h != rows {
		t.Error(w, h)
	}
}

// JSON is JSON, and harms no terminal.
func TestJSON(t *testing.T) {
	name := "a\x1b\u009b\u202e\U000e0001 ü 東<&>\x7f"
	var b bytes.Buffer
	if err := WriteJSON(&b, []string{name}, "  "); err != nil {
		t.Fatal(err)
	}
	for _, r := range b.String() {
		if r < ' ' && r != '\n' || r >= 0x7f && r < 0xa0 || r == 0x202e || r == 0xe0001 {
			t.Errorf("%U in %s", r, b.String())
		}
	}
	var back []string
	if err := json.Unmarshal(b.Bytes(), &back); err != nil || back[0] != name {
		t.Errorf("%v: %q", err, back)
	}
}
