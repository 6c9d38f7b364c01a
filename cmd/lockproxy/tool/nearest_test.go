package tool

import "testing"

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
