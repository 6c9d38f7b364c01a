package commands_test

import (
	"strings"
	"testing"
)

// A pattern that costs a node much is not sent to it: the proxy compares the names itself, with the same
// result.
func TestDearPatterns(t *testing.T) {
	long := strings.Repeat("a", 60<<10)
	f := newSession(t, saying("*2\r\n$3\r\njob\r\n$61441\r\nx"+long+"\r\n"))
	for pattern, want := range map[string]string{
		"*" + long + "b": "*0\r\n",
		"*" + long:       "*1\r\n$61441\r\nx" + long + "\r\n",
		"j*":             "*2\r\n$3\r\njob\r\n$61441\r\nx" + long + "\r\n", // which the node has compared
	} {
		f.Sent = nil
		got := f.Do("PUBSUB CHANNELS " + pattern)
		if got != want {
			t.Errorf("%.20s: %.80q", pattern, got)
		}
		for _, sent := range f.Sent {
			if len(pattern) > 100 && strings.Contains(sent, long) {
				t.Errorf("a node gets %.20s", pattern)
			}
		}
	}
	if len(f.Sent) == 0 {
		t.Error("nothing was sent")
	}
}
