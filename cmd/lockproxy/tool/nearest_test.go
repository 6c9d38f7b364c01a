package tool

import (
	"strings"
	"testing"
)

func TestNearest(t *testing.T) {
	words := []string{"locks", "lock", "ready", "health", "check", "cacert"}
	for typed, want := range map[string]string{
		"lokc": "lock", "lcok": "lock", "lok": "lock", "lockx": "lock", "lockss": "locks", "helth": "health",
		"raedy": "ready", "chekc": "check", "ca-cert": "cacert", "heal": "health", "": "", "x": "",
		"stop": "", "redis": "",
	} {
		if got := Nearest(typed, words); got != want {
			t.Errorf("%s: %q, want %q", typed, got, want)
		}
	}
}

func TestNearestOfALongWord(t *testing.T) {
	typed, words := strings.Repeat("x", 1000), []string{"locks", "lock", "ready"}
	if n := testing.AllocsPerRun(1, func() { Nearest(typed, words) }); n > 0 {
		t.Errorf("%v allocations for a word that nobody can have meant", n)
	}
}
