package house

import (
	"cmp"
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the tests of each row of docs/proofs.md anew")

// tableRow is one line of the table of docs/proofs.md: the row, what it is about, and the tests that show it.
var tableRow = regexp.MustCompile(`(?m)^\| (R\d+) \| (.+?) \| (.*?) ?\|$`)

// Each row of the table in docs/proofs.md names tests that show it, and each of them says so itself.
func TestRowsHaveTests(t *testing.T) {
	const page, rows = "../../docs/proofs.md", 33
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	shown := testsOfRows(t)
	if *update {
		text = tableRow.ReplaceAllFunc(text, func(line []byte) []byte {
			m := tableRow.FindSubmatch(line)
			row := string(m[1])
			return []byte("| " + row + " | " + string(m[2]) + " | `" +
				strings.Join(pick(shown, row), "`, `") + "` |")
		})
		if err := os.WriteFile(page, text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	found := tableRow.FindAllStringSubmatch(string(text), -1)
	if len(found) != rows {
		t.Fatalf("%d rows in %s, want %d", len(found), page, rows)
	}
	for _, m := range found {
		for test := range strings.SplitSeq(m[3], ", ") {
			if test = strings.Trim(test, "`"); !slices.Contains(shown[m[1]], test) {
				t.Errorf("%s: %q does not say that it shows it "+
					"(go test ./integration/house -run Rows -update)", m[1], test)
			}
		}
	}
}

// pick chooses some tests of a row: conversations first, then those with real servers, then those of the
// packages; of each kind those that show the fewest rows.
func pick(shown map[string][]string, row string) (some []string) {
	rows := make(map[string]int)
	for _, tests := range shown {
		for _, test := range tests {
			rows[test]++
		}
	}
	all := slices.Clone(shown[row])
	slices.SortFunc(all, func(a, b string) int {
		return cmp.Or(kind(a)-kind(b), rows[a]-rows[b], strings.Compare(a, b))
	})
	var taken [3]int
	for _, test := range all {
		if k := kind(test); taken[k] < 2 {
			taken[k]++
			some = append(some, test)
		}
	}
	return some
}

func kind(test string) int {
	switch {
	case strings.HasSuffix(test, ".txt"):
		return 0
	case strings.HasPrefix(test, "integration/"):
		return 1
	}
	return 2
}

// testsOfRows is which tests say that they show a row: by the name of the row in a comment of a test or in
// the file of its data.
func testsOfRows(t *testing.T) map[string][]string {
	t.Helper()
	rowName := regexp.MustCompile(`\bR([1-9]|[12]\d|3[0-3])\b`)
	shown := make(map[string]map[string]bool)
	walkTests(t, func(name string, text []byte) {
		testOf := func(int) string {
			return strings.Replace(strings.TrimPrefix(name, "integration/"), "/testdata/", "/", 1)
		}
		if strings.HasSuffix(name, ".go") {
			testOf = testAt(t, name, text)
		}
		for i, line := range strings.Split(string(text), "\n") {
			for _, row := range rowName.FindAllString(line, -1) {
				if shown[row] == nil {
					shown[row] = make(map[string]bool)
				}
				shown[row][testOf(i+1)] = true
			}
		}
	})
	all := make(map[string][]string)
	for row, tests := range shown {
		all[row] = slices.Collect(maps.Keys(tests))
	}
	return all
}

// walkTests calls see for each file of tests, and for each of their data in integration.
func walkTests(t *testing.T, see func(name string, text []byte)) {
	t.Helper()
	err := filepath.WalkDir("../..", func(file string, d fs.DirEntry, err error) error {
		name, _ := filepath.Rel("../..", file)
		name = filepath.ToSlash(name)
		goTest := strings.HasSuffix(name, "_test.go") && name != "integration/house/rows_test.go"
		data := strings.HasSuffix(name, ".txt") && strings.HasPrefix(name, "integration/")
		if err != nil || d.IsDir() || !goTest && !data {
			return err
		}
		text, err := os.ReadFile(file)
		if err == nil {
			see(name, text)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// testAt says to which test a line of a file belongs, its comment included: "redlock/TestKeep", or the file
// if it is outside of all.
func testAt(t *testing.T, name string, text []byte) func(line int) string {
	t.Helper()
	set := token.NewFileSet()
	f, err := parser.ParseFile(set, name, text, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	return func(line int) string {
		for _, decl := range f.Decls {
			fn, ok := decl.(*ast.FuncDecl)
			if !ok || fn.Recv != nil || !strings.HasPrefix(fn.Name.Name, "Test") {
				continue
			}
			first := fn.Pos()
			if fn.Doc != nil {
				first = fn.Doc.Pos()
			}
			if set.Position(first).Line <= line && line <= set.Position(fn.End()).Line {
				return path.Dir(name) + "/" + fn.Name.Name
			}
		}
		return name
	}
}
