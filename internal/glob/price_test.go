package glob

import (
	"strings"
	"testing"
)

func TestPrice(t *testing.T) {
	for pattern, want := range map[string]int{
		"": 0, "job:1": 0, "job:*": 0, strings.Repeat("a", 1000) + "*": 0, "*": 0, "***": 0,
		"*:done": 2, "a*bc*def*": 2, "*?b[xyz]": 7, "[a-z]x*": 5, `*\*\**`: 2, "*a": 1, "*abab": 3,
		"*" + strings.Repeat("a", 500) + "b": 501, strings.Repeat("*a", 500): 1,
		"*" + strings.Repeat("ab", 250): 251, "*" + strings.Repeat("a", 9) + "*aa": 9,
		"*:user:7f3c9e0a-1b2d-4c5e-8f90-a1b2c3d4e5f6:events": 3,
		"[" + strings.Repeat("a", 500):                       501, "*" + strings.Repeat("?", 36): 36,
	} {
		if got := Price([]byte(pattern)); got != want {
			t.Errorf("%.40s: %d, want %d", pattern, got, want)
		}
	}
}

// Redis's own function compares no more bytes than the price says, whatever the name is.
func FuzzPrice(f *testing.F) {
	for _, seed := range []string{"*aab", "*abab*b", "*a?a", "*[ab]a", "[ab]*", `*\\*a`, "a*b*aaaab"} {
		f.Add([]byte(seed), []byte("aabaaabab"))
		f.Add([]byte(seed), []byte("aaaaaaaaaaaaaaaaaaaaaaaaaa"))
	}
	f.Fuzz(func(t *testing.T, pattern, name []byte) {
		if len(pattern) > 100 || len(name) > 100 {
			return
		}
		steps, hopeless := 0, false
		countedAsRedis(pattern, name, &hopeless, &steps)
		if most := (Price(pattern)+1)*len(name) + len(pattern); steps > most {
			t.Fatalf("%q, %q: %d steps, the price is %d", pattern, name, steps, Price(pattern))
		}
	})
}
