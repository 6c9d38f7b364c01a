package rig

import (
	"context"
	"net"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// slow is what redis-cli prints behind a reply that has taken half a second or more.
var slow = regexp.MustCompile(`(?m)^\(\d+\.\d\ds\)\n`)

// Tool runs one of Redis's own tools against an address and returns what it
// printed to either stream.
func Tool(t *testing.T, addr, input, name string, args ...string) string {
	t.Helper()
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, append([]string{"-h", host, "-p", port}, args...)...)
	cmd.Stdin = strings.NewReader(input)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%s %v: %v\n%s", name, args, err, out)
	}
	return slow.ReplaceAllString(string(out), "")
}
