package house

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Each row of each table in the docs has as many cells as the head of its table.
func TestTablesOfTheDocs(t *testing.T) {
	tables := 0
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.Name() == ".git" && d.IsDir() {
			return filepath.SkipDir
		}
		if d.IsDir() || filepath.Ext(path) != ".md" {
			return nil
		}
		text, err := os.ReadFile(path)
		n, odd := oddRows(string(text))
		tables += n
		for _, row := range odd {
			t.Errorf("%s: a row with other cells than its table's head: %s", path, row)
		}
		return err
	})
	if err != nil || tables < 50 {
		t.Errorf("%d tables, %v", tables, err)
	}
}

// oddRows counts the tables of a page, and finds the rows with more or fewer cells than their head.
func oddRows(page string) (tables int, odd []string) {
	code, want := false, 0
	for line := range strings.Lines(page) {
		code = code != strings.HasPrefix(strings.TrimSpace(line), "```")
		cells := cellsOf(line)
		switch {
		case code || cells == nil:
			want = 0
		case want == 0:
			tables, want = tables+1, len(cells)
		case len(cells) != want:
			odd = append(odd, line)
		}
	}
	return tables, odd
}

// cellsOf are the cells of a row; nil: the line is none.
func cellsOf(line string) (cells []string) {
	line, begins := strings.CutPrefix(strings.TrimSpace(line), "|")
	line, ends := strings.CutSuffix(line, "|")
	if !begins || !ends {
		return nil
	}
	for _, cell := range strings.Split(strings.ReplaceAll(line, `\|`, "\x00"), "|") {
		cells = append(cells, strings.TrimSpace(cell))
	}
	return cells
}

func TestOddRowsAreFound(t *testing.T) {
	for page, want := range map[string]int{
		"| a | b |\n|---|---|\n| 1 | 2 |\n":                     0,
		"| a | b |\n|---|---|\n| 1 | `x \\| y` |\n":             0,
		"| a | b |\n|---|---|\n| 1 |\n":                         1,
		"| a | b |\n|---|---|\n| 1 | 2 | 3 |\n| 4 | 5 |\n":      1,
		"| a | b |\n|---|---|\n\n| c |\n|---|\n| 1 |\n":         0,
		"```\n| a | b |\n|---|---|\n| 1 |\n```\n":               0,
		"| a | b |\n|---|---|\n| 1 | 2 |\ntext\n| c |\n|---|\n": 0,
	} {
		if _, odd := oddRows(page); len(odd) != want {
			t.Errorf("%q: odd are %q", page, odd)
		}
	}
}

// The table of guarantees has each verb that promises something in one row.
func TestGuaranteesHaveEachVerb(t *testing.T) {
	text, err := os.ReadFile("../../docs/locks.md")
	if err != nil {
		t.Fatal(err)
	}
	_, syntax, _ := strings.Cut(string(text), "\n```\nLOCK ")
	syntax, _, _ = strings.Cut("LOCK "+syntax, "\n```\n")
	// the others of LOCKCTL tell what was there a moment ago
	verbs := []string{"LOCKCTL CHECK", "LOCKCTL BREAK"}
	for line := range strings.Lines(syntax) {
		if verb := strings.Fields(line)[0]; line[0] != ' ' && verb != "LOCKCTL" {
			verbs = append(verbs, verb)
		}
	}
	_, table, _ := strings.Cut(string(text), "\n### Where it is shown\n")
	table, _, _ = strings.Cut(table, "\n## ")
	var rows []string
	for line := range strings.Lines(table) {
		if cells := cellsOf(line); cells != nil {
			rows = append(rows, strings.Split(cells[0], ", ")...)
		}
	}
	if len(verbs) < 12 {
		t.Errorf("verbs: %q", verbs)
	}
	for _, verb := range verbs {
		in := func(name string) bool { return name == verb }
		if n := len(rows) - len(slices.DeleteFunc(slices.Clone(rows), in)); n != 1 {
			t.Errorf("%s is in %d rows", verb, n)
		}
	}
}

// The page of each library says what becomes of commands that it sends again.
func TestClientsTellWhatIsSentAgain(t *testing.T) {
	pages, err := filepath.Glob("../../docs/clients/*.md")
	if err != nil || len(pages) < 11 {
		t.Fatalf("%d pages, %v", len(pages), err)
	}
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if _, told, _ := strings.Cut(string(text), "\n- **Sent again**"); err != nil ||
			!strings.Contains(told, "SEMLOCK") || !strings.Contains(told, "clients.md#sent-again") {
			t.Errorf("%s does not tell: %v", page, err)
		}
	}
}
