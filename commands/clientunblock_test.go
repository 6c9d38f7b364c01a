package commands_test

import (
	"testing"
)

func TestClientUnblock(t *testing.T) {
	for line, want := range map[string]string{
		"CLIENT UNBLOCK 12":         "+12 false\r\n",
		"CLIENT UNBLOCK 12 timeout": "+12 false\r\n",
		"client unblock 12 Error":   "+12 true\r\n",
		"CLIENT UNBLOCK -3":         "+-3 false\r\n",
		"CLIENT UNBLOCK":            "-ERR wrong number of arguments for 'client|unblock' command\r\n",
		"CLIENT UNBLOCK x":          "-ERR value is not an integer or out of range\r\n",
		"CLIENT UNBLOCK +1":         "-ERR value is not an integer or out of range\r\n",
		"CLIENT UNBLOCK x y":        "-ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR\r\n",
		"CLIENT unblock 1 ERROR y": "-ERR unknown subcommand or wrong number of arguments for 'unblock'. " +
			"Try CLIENT HELP.\r\n",
	} {
		if got := newSession(t).Do(line); got != want {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
}
