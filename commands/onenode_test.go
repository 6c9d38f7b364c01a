package commands_test

import (
	"strings"
	"testing"
)

// TestWhatOneServerTells proves that commands whose answer speaks of one server pass it untouched. In
// front of several masters none is asked, and the refusal says what to do.
func TestWhatOneServerTells(t *testing.T) {
	for _, line := range []string{
		"LATENCY LATEST", "LATENCY HISTORY command", "LATENCY HISTOGRAM", "LATENCY HISTOGRAM get",
		"LATENCY GRAPH command", "LATENCY DOCTOR", "MEMORY STATS", "MEMORY DOCTOR", "MEMORY MALLOC-STATS",
	} {
		const reply = "*1\r\n$6\r\nanswer\r\n"
		one := newSession(t, saying(reply))
		if got := one.Do(line); got != reply || len(one.Sent) != 1 {
			t.Errorf("%s at one master: %q after %q", line, got, one.Sent)
		}
		two := newSession(t, saying(reply), saying(reply))
		got := two.Do(line)
		name := strings.Join(strings.Fields(line)[:2], " ")
		if want := "-ERR " + name + " is not available through lockproxy in front of several masters: its " +
			"answer speaks of one server; ask that server\r\n"; got != want || len(two.Sent) > 0 {
			t.Errorf("%s at two masters: %q after %q", line, got, two.Sent)
		}
	}
}

// TestOrdersForAllServers proves that MEMORY PURGE and LATENCY RESET reach every master.
func TestOrdersForAllServers(t *testing.T) {
	for line, reply := range map[string]string{"MEMORY PURGE": "+OK\r\n", "LATENCY RESET": ":2\r\n"} {
		two := newSession(t, saying(reply), saying(reply))
		if got := two.Do(line); got != reply || len(two.Sent) != 2 {
			t.Errorf("%s: %q after %q", line, got, two.Sent)
		}
	}
}
