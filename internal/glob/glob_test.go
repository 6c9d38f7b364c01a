package glob

import (
	"bytes"
	"slices"
	"testing"
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

// Nothing that a client can send makes a match deep or long: neither many stars nor parts that nearly
// fit at every place of a long text.
func TestMatchIsBounded(t *testing.T) {
	const deep, many = 10_000_000, 1_000_000 // many stars could overflow a stack; the rest could take hours
	text := bytes.Repeat([]byte("a"), many)
	stars := bytes.Repeat([]byte("*a"), deep)
	half := func(begin, unit, end string) []byte {
		return slices.Concat([]byte(begin), bytes.Repeat([]byte(unit), many/2), []byte(end))
	}
	for name, tt := range map[string]struct {
		pattern, s []byte
		want       bool
	}{
		"stars against letters":     {append(stars, 'b'), text, false},
		"stars against stars":       {append(stars, 'b'), stars, false},
		"letters against stars":     {text, stars, false},
		"nothing but stars":         {half("", "**", ""), text, true},
		"stars behind a letter":     {half("a", "**", ""), []byte("a"), true},
		"half of it nearly fits":    {half("*", "a", "b*"), text, false},
		"half of it fits":           {half("*", "a", "*"), text, true},
		"the end nearly fits":       {half("*", "a", "b"), text, false},
		"any letter, then another":  {half("*", "?", "b*"), text, false},
		"letters, any, another":     {half("*", "a", "?b*"), text, false},
		"classes":                   {half("*", "[^b]", "b*"), text, false},
		"one class without an end":  {half("*[", "b", ""), text, false},
		"quoted letters":            {half("*", `\a`, "b*"), text, false},
		"a long text, a long match": {text, text, true},
	} {
		if got := Match(tt.pattern, tt.s); got != tt.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// A match takes as many steps for each byte of a long input as of a short one.
func TestMatchGrowsWithItsInput(t *testing.T) {
	for _, unit := range []string{"?", `\a`, "[ab]", "a?"} {
		for _, n := range []int{1 << 18, 1 << 20} {
			pattern := append([]byte("*"), bytes.Repeat([]byte(unit), n/2)...)
			m := newMatcher(append(pattern, "b*"...), bytes.Repeat([]byte("a"), n))
			most := m.steps
			if m.match() {
				t.Errorf("%q: it matches", unit)
			}
			if most > freeSteps+20*n || m.steps < -10*n {
				t.Errorf("%q, %d bytes: %d steps of %d", unit, n, most-m.steps, most)
			}
		}
	}
}

// MatchWithin gives up within its steps, however long the input is, and not before.
func TestMatchWithin(t *testing.T) {
	text := bytes.Repeat([]byte("a"), 1000)
	slow := append(append([]byte("*"), bytes.Repeat([]byte("?a"), 200)...), "b*"...)
	for _, tt := range []struct {
		pattern, s []byte
		most       int
		gives      bool // up
	}{
		{[]byte("user:*"), []byte("user:1234:cart"), 20, false},
		{[]byte("user:*"), []byte("user:1234:cart"), 0, true},
		{[]byte("*"), make([]byte, 1<<20), 1000, true},
		{slow, text, 10_000, true},
		{slow, text, 1_000_000, false},
		{nil, nil, 1, false},
	} {
		ok, left := MatchWithin(tt.pattern, tt.s, tt.most)
		if left < 0 != tt.gives || !tt.gives && ok != Match(tt.pattern, tt.s) ||
			left < -2*len(tt.pattern)-1<<20/16 {
			t.Errorf("%.20q of %d bytes, %d steps: %v, %d left", tt.pattern, len(tt.s), tt.most, ok, left)
		}
	}
}

// What Redis gives up for its stars does not match here either.
func TestMatchStarLimit(t *testing.T) {
	text := bytes.Repeat([]byte("ab"), maxStars+10)
	for n, want := range map[int]bool{maxStars: true, maxStars + 1: false} {
		if got := Match(append(bytes.Repeat([]byte("*b"), n), '*'), text); got != want {
			t.Errorf("%d stars and one at the end: %v", n, got)
		}
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

// The matcher decides as Redis's own function does, never reads beyond its input, and CanBegin never
// denies what Match finds.
func FuzzMatch(f *testing.F) {
	for _, seed := range []string{
		"*a[b-c]", "[", "[^", `\`, "a?*", "*b*c", "*?c*", "**", "a**", `*\*`, "*[", "*ab*abc",
	} {
		f.Add([]byte(seed), []byte("abcabc"))
		f.Add([]byte(seed), []byte{})
		f.Add(bytes.Repeat([]byte(seed), 9), bytes.Repeat([]byte("abcabc"), 9))
	}
	f.Fuzz(func(t *testing.T, pattern, s []byte) {
		if len(pattern) > 100 || len(s) > 100 {
			return
		}
		got, hopeless := Match(pattern, s), false
		if want := asRedis(pattern, s, &hopeless); got != want {
			t.Fatalf("Match(%q, %q) = %v", pattern, s, got)
		}
		if ok, left := MatchWithin(pattern, s, 1<<20); left < 0 || ok != got {
			t.Fatalf("MatchWithin(%q, %q): %v, %d steps left", pattern, s, ok, left)
		}
		if got {
			for n := range len(s) + 1 {
				if !CanBegin(pattern, string(s[:n])) {
					t.Fatalf("%q matches %q, and CanBegin denies %q", pattern, s, s[:n])
				}
			}
		}
	})
}

// asRedis is stringmatchlen of Redis's util.c, which calls itself for each star. hopeless is set
// once it is known that no earlier star can help by taking more of s.
func asRedis(p, s []byte, hopeless *bool) bool { return countedAsRedis(p, s, hopeless, new(int)) }

// countedAsRedis is asRedis that adds the letters of p which it compares to steps.
func countedAsRedis(p, s []byte, hopeless *bool, steps *int) bool {
	for len(p) > 0 && len(s) > 0 {
		if p[0] == '*' {
			for len(p) > 1 && p[1] == '*' {
				p = p[1:]
			}
			if len(p) == 1 {
				return true
			}
			for ; len(s) > 0; s = s[1:] {
				if countedAsRedis(p[1:], s, hopeless, steps) {
					return true
				}
				if *hopeless {
					return false
				}
			}
			*hopeless = true
			return false
		}
		n, ok := one(p, s[0])
		if *steps += n; p[0] == '\\' {
			*steps += 1 - n
		}
		if !ok {
			return false
		}
		p, s = p[n:], s[1:]
		if len(s) == 0 {
			for len(p) > 0 && p[0] == '*' {
				p = p[1:]
			}
		}
	}
	return len(p) == 0 && len(s) == 0
}

func BenchmarkMatch(b *testing.B) {
	for name, pattern := range map[string]string{
		"prefix": "user:*", "middle": "*:1234:*", "class": "user:[0-9]*:ca?t", "none": "user:1234:cart",
	} {
		b.Run(name, func(b *testing.B) {
			for range b.N {
				Match([]byte(pattern), []byte("user:1234:cart"))
			}
		})
	}
}
