//go:build !quick

package commands_test

import (
	"slices"
	"strings"
	"testing"

	"lockproxy/internal/resp"
)

// All that a real server tells keeps its place and its form.
func TestInfoOfRealServer(t *testing.T) {
	ask := realRedis(t)
	ask("SET", "k", "v")
	one := ask("INFO", "everything")
	f := newSession(t, saying(string(one)), saying(string(one)))
	v, _, _ := resp.Parse(one)
	w, _, _ := resp.Parse([]byte(f.Do("INFO everything")))
	theirs, ours := infoNames(v.Text()), infoNames(w.Text())
	if len(theirs) < 10 || !slices.Equal(ours[:len(theirs)], theirs) {
		t.Errorf("\n got %q\nwant %q", ours, theirs)
	}
	if v, _, _ := resp.Parse([]byte(f.Do("INFO keyspace"))); !strings.Contains(v.Text(),
		"db0:keys=2,expires=0,avg_ttl=0") {
		t.Errorf("%q", v.Text())
	}
}

// infoNames are the titles and the names with a value in a text of INFO.
func infoNames(text string) (names []string) {
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimRight(line, "\r\n"), ":")
		if strings.HasPrefix(name, "# ") || value != "" && name != "run_id" && name != "executable" {
			names = append(names, name)
		}
	}
	return names
}
