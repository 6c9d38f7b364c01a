package integration

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestReadmeSessions runs each block of README that is marked redis-cli in one
// session of the real redis-cli against --dev, and compares what it prints.
// Words in angle brackets stand for what varies.
func TestReadmeSessions(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), "\n## Which lock?\n") { // R1
		t.Error("README does not say which lock to use when")
	}
	sessions := 0
	for block := range strings.SplitSeq(string(text), "```redis-cli\n") {
		body, _, found := strings.Cut(block, "\n```")
		if sessions++; sessions == 1 || !found {
			continue // what stands before the first
		}
		for _, d := range diffSession(t, body, startProxy(t, "--dev").addr) {
			t.Errorf("README, redis-cli block %d: %s", sessions-1, d)
		}
	}
	if sessions < 2 {
		t.Error("README has no redis-cli session")
	}
}

// The comparison notices what differs.
func TestReadmeSessionFails(t *testing.T) {
	addr := startRedis(t).addr
	for _, tt := range []struct {
		session string
		wrong   int
	}{
		{"127.0.0.1:6380> SET k v\nOK\n127.0.0.1:6380> INCR n\n(integer) <n>", 0},
		{"127.0.0.1:6380> SET k v\n(nil)\n127.0.0.1:6380> GET k\n\"v\"", 1},
		{"127.0.0.1:6380> GET k\n\"v\"\n\"w\"\n127.0.0.1:6380> GET k\n(nil)", 2},
		{"127.0.0.1:6380> MGET k none\n1) \"<any>\"\n2) (nil)", 0},
		{"127.0.0.1:6380> NOSUCH\n(error) ERR unknown command 'NOSUCH', <and so>", 0},
		{"127.0.0.1:6380> DBSIZE\n(integer) 99\n127.0.0.1:6380> PING\nPONG\nagain", 2},
	} {
		if d := diffSession(t, tt.session, addr); len(d) != tt.wrong {
			t.Errorf("%q: %d differences, want %d: %q", tt.session, len(d), tt.wrong, d)
		}
	}
}

// slow is what redis-cli says behind a reply that took half a second.
var slow = regexp.MustCompile(`\n\(\d+\.\d\ds\)$`)

// diffSession runs the commands behind the prompts and returns how what they print
// differs from the lines below each.
func diffSession(t *testing.T, session, addr string) (diffs []string) {
	t.Helper()
	var commands, wants []string
	for line := range strings.SplitSeq(session, "\n") {
		if _, command, ok := strings.Cut(line, "> "); ok && !strings.HasPrefix(line, "(") {
			commands = append(commands, command)
			wants = append(wants, "")
		} else if len(wants) > 0 {
			wants[len(wants)-1] += line + "\n"
		}
	}
	const mark = "end of command"
	var input strings.Builder
	for _, command := range commands {
		fmt.Fprintf(&input, "%s\nECHO \"%s\"\n", command, mark)
	}
	gots := strings.Split(tool(t, addr, input.String(), "redis-cli", "--no-raw"), quote(mark)+"\n")
	for i, command := range commands {
		if i >= len(gots) {
			return append(diffs, command+": the session ended before it")
		}
		p := player{bound: map[string]string{}}
		want := strings.TrimSpace(angle.ReplaceAllString(wants[i], "<any>"))
		got := slow.ReplaceAllString(strings.TrimSpace(gots[i]), "")
		if err := p.match(want, got); err != nil {
			diffs = append(diffs, command+err.Error())
		}
	}
	return diffs
}
