package house

import (
	"go/scanner"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"
)

const mostColumns = 110

// Lines of code fit beside each other on a screen: a tab counts as 4 columns.
func TestLinesStayShort(t *testing.T) {
	const root = "../.."
	files := 0
	err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && strings.HasPrefix(d.Name(), ".") && d.Name() != root && d.Name() != "..":
			return filepath.SkipDir
		case filepath.Ext(file) != ".go" && filepath.Ext(file) != ".lua":
			return nil
		}
		files++
		source, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		for _, n := range longLines(file, source) {
			t.Errorf("%s:%d: more than %d columns", strings.TrimPrefix(file, root+"/"), n, mostColumns)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if files < 300 {
		t.Errorf("%d files only", files)
	}
}

// longLines are the numbers of the lines that are too long. Those inside a raw string of Go do not count: a
// break would change what it says.
func longLines(file string, source []byte) (long []int) {
	raw := map[int]bool{}
	if filepath.Ext(file) == ".go" {
		raw = rawLines(file, source)
	}
	n := 0
	for line := range strings.Lines(string(source)) {
		n++
		line = strings.TrimRight(line, "\n")
		if utf8.RuneCountInString(line)+3*strings.Count(line, "\t") > mostColumns && !raw[n] {
			long = append(long, n)
		}
	}
	return long
}

// rawLines are the lines on which a raw string goes on that has begun on an earlier one.
func rawLines(file string, source []byte) map[int]bool {
	lines := map[int]bool{}
	files := token.NewFileSet()
	f := files.AddFile(file, -1, len(source))
	var s scanner.Scanner
	s.Init(f, source, nil, 0)
	for {
		pos, kind, text := s.Scan()
		switch {
		case kind == token.EOF:
			return lines
		case kind == token.STRING && text[0] == '`':
			first := files.Position(pos).Line
			for i := range strings.Count(text, "\n") {
				lines[first+i+1] = true
			}
		}
	}
}

func TestLongLinesAreFound(t *testing.T) {
	long := strings.Repeat("x", mostColumns+1)
	for source, want := range map[string]int{
		"// " + long:                                  1,
		"//" + strings.Repeat("µ", 108):               0,
		"\t//" + strings.Repeat("x", 104):             0,
		"\t//" + strings.Repeat("x", 105):             1,
		"const x = `\n" + long + "`":                  0,
		"const x = `" + long + "`":                    1,
		"const x = `\n`\n// " + long + "\n// " + long: 2,
	} {
		if got := longLines("a.go", []byte(source)); len(got) != want {
			t.Errorf("%.20q...: lines %v, want %d", source, got, want)
		}
	}
	if got := longLines("a.lua", []byte("-- `\n-- "+long)); len(got) != 1 {
		t.Errorf("in Lua: %v", got)
	}
}
