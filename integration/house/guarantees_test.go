package house

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

var cited = regexp.MustCompile("`(Test[A-Za-z0-9]+|[a-z-]+\\.txt)`")

// Each test that the table of guarantees in docs/locks.md names is there, and each cell names one, or says
// that there can be none.
func TestGuaranteesAreTested(t *testing.T) {
	const page = "../../docs/locks.md"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(text), "\n### Where it is shown\n")
	table, _, _ = strings.Cut(table, "\n## ")
	known, rows := testsOfTheTree(t), 0
	for line := range strings.Lines(table) {
		if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| verb") {
			continue
		}
		rows++
		named := cited.FindAllStringSubmatch(line, -1)
		if len(named) < 3 {
			t.Errorf("a row names %d tests: %s", len(named), line)
		}
		for _, m := range named {
			if !known[m[1]] {
				t.Errorf("%s names %s, which is not there", page, m[1])
			}
		}
		for _, cell := range strings.Split(strings.Trim(line, "| \n"), "|")[1:] {
			cell = strings.TrimSpace(cell)
			if why, none := strings.CutPrefix(cell, "- "); (!none || why == "") && !cited.MatchString(cell) {
				t.Errorf("a cell without a test: %q in %s", cell, line)
			}
		}
	}
	if rows < 14 {
		t.Errorf("%d rows", rows)
	}
}

// testsOfTheTree are the names of all tests and of all conversations.
func testsOfTheTree(t *testing.T) map[string]bool {
	t.Helper()
	declared := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	all := make(map[string]bool)
	walkTests(t, func(name string, text []byte) {
		if strings.HasSuffix(name, ".txt") {
			all[name[strings.LastIndex(name, "/")+1:]] = true
			return
		}
		for _, m := range declared.FindAllStringSubmatch(string(text), -1) {
			all[m[1]] = true
		}
	})
	return all
}
