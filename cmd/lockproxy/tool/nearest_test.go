package tool

import "testing"

func TestNearest(t *testing.T) {
	words := []string{"lock", "locks", "ready", "health", "check", "cacert"}
	for typed, want := range map[string]string{
		"lokc": "lock", "lcok": "lock", "lok": "lock", "lockx": "lock", "lockss": "locks", "helth": "health",
		"raedy": "ready", "chekc": "check", "ca-cert": "cacert", "": "", "x": "", "stop": "", "redis": "",
	} {
		if got := Nearest(typed, words); got != want {
			t.Errorf("%s: %q, want %q", typed, got, want)
		}
	}
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"", "ab", 2}, {"ab", "", 2}, {"ab", "ba", 1}, {"abc", "acb", 1}, {"abcd", "abed", 1},
		{"kitten", "sitting", 3}, {"ca", "abc", 3}} {
		if got := distance(c.a, c.b); got != c.want {
			t.Errorf("%s %s: %d, want %d", c.a, c.b, got, c.want)
		}
	}
}
