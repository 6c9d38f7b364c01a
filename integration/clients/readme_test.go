package clients

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"lockproxy/integration/rig"
)

// pages are the texts for users: README and docs/.
func pages(t *testing.T) map[string]string {
	t.Helper()
	files, err := filepath.Glob("../../docs/*.md")
	if err != nil || len(files) < 8 {
		t.Fatalf("%d pages in docs, %v", len(files), err)
	}
	libraries, err := filepath.Glob("../../docs/clients/*.md")
	if err != nil || len(libraries) < 8 {
		t.Fatalf("%d pages in docs/clients, %v", len(libraries), err)
	}
	all := make(map[string]string)
	for _, file := range append(append(files, libraries...), "../../README.md") {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all[filepath.ToSlash(file)] = string(text)
	}
	return all
}

// TestReadmeSessions runs each block of README and docs/ that is marked redis-cli in one
// session of the real redis-cli against --dev, and compares what it prints.
// Words in angle brackets stand for what varies.
func TestReadmeSessions(t *testing.T) {
	t.Parallel()
	all := pages(t)
	if !strings.Contains(all["../../README.md"], "\n## Which lock?\n") { // R1
		t.Error("README does not say which lock to use when")
	}
	for page, text := range all {
		blocks := strings.Split(text, "```redis-cli\n")
		if page == "../../README.md" && len(blocks) < 2 {
			t.Error("README has no redis-cli session")
		}
		for i, block := range blocks[1:] {
			body, _, found := strings.Cut(block, "\n```")
			if !found {
				t.Errorf("%s, redis-cli block %d does not end", page, i+1)
				continue
			}
			for _, d := range diffSession(t, body, rig.StartProxy(t, "--dev").Addr) {
				t.Errorf("%s, redis-cli block %d: %s", page, i+1, d)
			}
		}
	}
}

// README can be read in a few minutes; the rest is in docs/.
func TestReadmeIsShort(t *testing.T) {
	if n := strings.Count(pages(t)["../../README.md"], "\n"); n > 200 {
		t.Errorf("README has %d lines, 200 are the most: what is more belongs to docs/", n)
	}
}

var (
	linked  = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.+)$`)
	fenced  = regexp.MustCompile("(?s)\n```.*?\n```")
	unslug  = regexp.MustCompile(`[^\p{L}\p{N}_ -]`)
)

// anchors are what links into a page may name, made of its headings as GitHub makes them.
func anchors(text string) map[string]bool {
	all := make(map[string]bool)
	for _, m := range heading.FindAllStringSubmatch(fenced.ReplaceAllString(text, ""), -1) {
		all[strings.ReplaceAll(unslug.ReplaceAllString(strings.ToLower(m[1]), ""), " ", "-")] = true
	}
	return all
}

// Each link of README and docs/ to a file or to a heading leads somewhere.
func TestReadmeLinks(t *testing.T) {
	all, seen := pages(t), 0
	for page, text := range all {
		for _, m := range linked.FindAllStringSubmatch(fenced.ReplaceAllString(text, ""), -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			seen++
			path, anchor, _ := strings.Cut(m[1], "#")
			target := page
			if path != "" {
				target = filepath.ToSlash(filepath.Join(filepath.Dir(page), path))
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s: the link to %s leads nowhere: %v", page, m[1], err)
			} else if anchor != "" && !anchors(all[target])[anchor] {
				t.Errorf("%s: %s has no heading for #%s", page, target, anchor)
			}
		}
	}
	if seen < 10 {
		t.Errorf("only %d links are looked at", seen)
	}
}

// The comparison notices what differs.
func TestReadmeSessionFails(t *testing.T) {
	addr := rig.StartRedis(t).Addr
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
	gots := strings.Split(rig.Tool(t, addr, input.String(), "redis-cli", "--no-raw"), rig.Quote(mark)+"\n")
	for i, command := range commands {
		if i >= len(gots) {
			return append(diffs, command+": the session ended before it")
		}
		var parts []string
		for _, part := range angle.Split(strings.TrimSpace(wants[i]), -1) {
			parts = append(parts, regexp.QuoteMeta(part))
		}
		want, got := "(?s)^"+strings.Join(parts, ".*")+"$", strings.TrimSpace(gots[i])
		if !regexp.MustCompile(want).MatchString(got) {
			diffs = append(diffs, fmt.Sprintf("%s\n got %s\nwant %s", command, got, wants[i]))
		}
	}
	return diffs
}

var angle = regexp.MustCompile(`<[^<>\n]+>`)
