package glob

import (
	"strings"
	"testing"
	"time"
)

func TestMatch(t *testing.T) {
	for _, tt := range []struct {
		pattern, s string
		want       bool
	}{
		{"*", "news", true},
		{"*", "", false}, // as Redis has it
		{"", "", true},
		{"", "x", false},
		{"x", "", false},
		{"news.*", "news.", true},
		{"news.*", "news", false},
		{"news*", "news", true},
		{"*.jpg", "a.jpg", true},
		{"*a*b*", "xxaxxbxx", true},
		{"*a*b", "xxaxxbxx", false},
		{"**", "x", true},
		{"a**", "a", true},
		{"h?llo", "hello", true},
		{"h?llo", "hllo", false},
		{"h[ae]llo", "hallo", true},
		{"h[ae]llo", "hillo", false},
		{"h[^e]llo", "hallo", true},
		{"h[^e]llo", "hello", false},
		{"h[a-c]llo", "hbllo", true},
		{"h[c-a]llo", "hbllo", true},
		{"h[a-c]llo", "hdllo", false},
		{"h[a-]llo", "hallo", false}, // a range up to ], and no end
		{"h[a-]llo", "h_", true},
		{`h[\]]llo`, "h]llo", true},
		{`h[\a]llo`, "hallo", true},
		{"h[]llo", "hllo", false},
		{"h[a", "ha", true},
		{"h[a", "hb", false},
		{"h[^a", "hb", true},
		{"h[", "hb", false},
		{"h[^", "hb", true},
		{`h[\`, `h\`, true},
		{"h[a-", "h-", true},
		{`\*`, "*", true},
		{`\*`, "x", false},
		{`a\`, `a\`, true},
		{`\\`, `\`, true},
		{"News", "news", false},
		{"a\x00*", "a\x00b", true},
		{"\xff?", "\xff\xfe", true},
		{"[\x80-\xff]", "\xc3", true},
	} {
		if got := Match([]byte(tt.pattern), []byte(tt.s)); got != tt.want {
			t.Errorf("Match(%q, %q) = %v", tt.pattern, tt.s, got)
		}
	}
}

// A pattern of many stars takes no longer than its length allows.
func TestMatchManyStars(t *testing.T) {
	began := time.Now()
	if Match([]byte(strings.Repeat("*a", 500)+"b"), []byte(strings.Repeat("a", 5000))) {
		t.Error("it matches")
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("took %v", took)
	}
}

func TestCanBegin(t *testing.T) {
	for pattern, want := range map[string]bool{
		"*":                   true,
		"_*":                  true,
		"__keyspace@0__:*":    true,
		"__keyspace@*__:foo":  true,
		"__key*":              true,
		"__key[a-z]pace@0__*": true,
		"?_keyspace@0__:a":    true,
		"__keyspace@":         true,
		"__keyspace":          false,
		"":                    false,
		"news.*":              false,
		`\*`:                  false,
		`\__keyspace@*`:       true,
		"__keyevent@0__:del":  false,
		"[^_]*":               false,
	} {
		if got := CanBegin([]byte(pattern), "__keyspace@"); got != want {
			t.Errorf("CanBegin(%q) = %v", pattern, got)
		}
	}
}

// The matcher never reads beyond its input, and CanBegin never denies what Match finds.
func FuzzMatch(f *testing.F) {
	for _, seed := range []string{"*a[b-c]", "[", "[^", `\`, "a?*"} {
		f.Add([]byte(seed), []byte("abcabc"))
	}
	f.Fuzz(func(t *testing.T, pattern, s []byte) {
		if len(pattern) > 100 || len(s) > 100 {
			return
		}
		if Match(pattern, s) {
			for n := range len(s) + 1 {
				if !CanBegin(pattern, string(s[:n])) {
					t.Fatalf("%q matches %q, and CanBegin denies %q", pattern, s, s[:n])
				}
			}
		}
	})
}
