package page

import (
	"strings"
	"testing"
	"time"
)

// What other programs used is what all used without what is the benchmark's own.
func TestBusy(t *testing.T) {
	begun := time.Now()
	before := Usage{at: begun, all: 10 * time.Second, own: 4 * time.Second, load: "1.00"}
	after := Usage{at: begun.Add(10 * time.Second), all: 25 * time.Second, own: 12 * time.Second,
		stolen: time.Second, load: "2.00"}
	if got, want := before.Until(after),
		"other programs used 0.70 and the host took 0.10"; !strings.Contains(got, want) {
		t.Errorf("%s, want %s", got, want)
	}
	if got := (Usage{}).Until(after); !strings.Contains(got, "not known") {
		t.Errorf("of nothing: %s", got)
	}
}
