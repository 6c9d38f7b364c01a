package rig

import (
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
)

// What starts the tests says nothing to what they start.
func TestApart(t *testing.T) {
	names := []string{"LOCKPROXY_UPSTREAM", "LC_ALL", "LANG", "REDISCLI_AUTH", "PGHOST", "NOTIFY_SOCKET"}
	for _, name := range append(names, "LOCKPROXY_SERVERS") {
		t.Setenv(name, "x")
	}
	signal.Ignore(syscall.SIGHUP)
	t.Cleanup(func() { signal.Reset(syscall.SIGHUP) })
	apart()
	for _, name := range names {
		if os.Getenv(name) != "" {
			t.Errorf("%s is left", name)
		}
	}
	if os.Getenv("LOCKPROXY_SERVERS") != "x" || os.Getenv("PATH") == "" {
		t.Error("what tests need is gone")
	}
	out, _ := exec.Command("sh", "-c", "kill -HUP $$; echo ignored").CombinedOutput()
	if strings.Contains(string(out), "ignored") {
		t.Error("a program ignores SIGHUP, since this process was told to")
	}
}
