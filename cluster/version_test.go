package cluster

import "testing"

func TestRedisVersions(t *testing.T) {
	for _, test := range []struct {
		a, b, older string
		major       int
	}{
		{"7.0.15", "6.2.14", "6.2.14", 6},
		{"7.0.15", "7.0.9", "7.0.9", 7},
		{"10.0.0", "9.9", "9.9", 9},
		{"", "7.2.0", "7.2.0", 7},
		{"7.2.0", "", "7.2.0", 7},
		{"7.2", "7.2.1", "7.2", 7},
		{"", "", "", 0},
		{"255.255.255", "8.0.0-rc1", "8.0.0-rc1", 8},
	} {
		if got := OlderVersion(test.a, test.b); got != test.older || majorVersion(got) != test.major {
			t.Errorf("%q, %q: %q, major %d", test.a, test.b, got, majorVersion(got))
		}
		if got := OlderVersion(test.b, test.a); got != test.older {
			t.Errorf("%q, %q: %q", test.b, test.a, got)
		}
	}
}
