package server_test

import (
	"testing"

	"lockproxy/commands/commandstest"
)

// A command that goes to all masters has run as often as the one says that counts most.
func TestHistogramOfAllMasters(t *testing.T) {
	histogram := func(set, flush string) func([]string) string {
		one := func(name, calls string) string {
			return "$" + string('0'+rune(len(name))) + "\r\n" + name + "\r\n*4\r\n$5\r\ncalls\r\n:" + calls +
				"\r\n$14\r\nhistogram_usec\r\n*2\r\n:4\r\n:" + calls + "\r\n"
		}
		return commandstest.Node("*4\r\n" + one("set", set) + one("flushall", flush))
	}
	f := commandstest.New(t, histogram("1", "2"), histogram("3", "3"))
	want := "*4\r\n$3\r\nset\r\n*4\r\n$5\r\ncalls\r\n:4\r\n$14\r\nhistogram_usec\r\n*2\r\n:4\r\n:4\r\n" +
		"$8\r\nflushall\r\n*4\r\n$5\r\ncalls\r\n:3\r\n$14\r\nhistogram_usec\r\n*2\r\n:4\r\n:3\r\n"
	if got := f.Do("LATENCY HISTOGRAM"); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
