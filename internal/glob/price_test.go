package glob

import (
	"strings"
	"testing"
)

func TestPrice(t *testing.T) {
	for pattern, want := range map[string]int{
		"": 0, "job:1": 0, "job:*": 0, strings.Repeat("a", 1000) + "*": 0, "*": 0, "***": 0,
		"*:done": 5, "a*bc*def*": 3, "*?b[xyz]": 7, "[a-z]x*": 5, `*\*\**`: 4,
		"*" + strings.Repeat("a", 500) + "b": 501, strings.Repeat("*a", 500): 1,
		"[" + strings.Repeat("a", 500): 501,
	} {
		if got := Price([]byte(pattern)); got != want {
			t.Errorf("%.40s: %d, want %d", pattern, got, want)
		}
	}
}
