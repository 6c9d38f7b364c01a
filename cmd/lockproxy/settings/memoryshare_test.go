package settings

import "testing"

func TestMemoryShare(t *testing.T) {
	for _, tt := range []struct {
		text, shown string
		of          int64 // of 1 GiB
	}{
		{"0", "0", 0}, {"0%", "0", 0}, {"100mb", "104857600", 100 << 20}, {"25%", "25%", 1 << 30 / 100 * 25},
		{"100%", "100%", 1 << 30 / 100 * 100}, {"1048576", "1048576", 1 << 20},
		{"101%", "", 0}, {"-1%", "", 0}, {"%", "", 0}, {"5 %", "", 0}, {"1", "", 0}, {"x", "", 0},
		{"", "", 0},
	} {
		var m MemoryShare
		err := memoryShare(&m).Set(tt.text)
		if (err != nil) != (tt.shown == "") {
			t.Errorf("%q: %v", tt.text, err)
		}
		if got := memoryShare(&m).String(); err == nil && (got != tt.shown || m.Of(1<<30) != tt.of) {
			t.Errorf("%q: shown as %s, %d bytes", tt.text, got, m.Of(1<<30))
		}
	}
	if n := (MemoryShare{Percent: 1}).Of(1 << 20); n != leastMemory {
		t.Errorf("1%% of a megabyte is %d", n)
	}
}
